#include "execute/local.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

using Steady = std::chrono::steady_clock;

// The last lines of a worker's standard error without its progress lines: what a person needs to see why it died.
class Complaints {
 public:
  void add(std::string_view line) {
    if (line.empty()) return;
    if (lines_.size() == kKept) lines_.erase(lines_.begin());
    lines_.emplace_back(line.substr(0, 500));
  }
  [[nodiscard]] std::string text() const {
    return lines_.empty() ? "it printed nothing" : fmt::format("{}", fmt::join(lines_, "\n"));
  }

 private:
  static constexpr std::size_t kKept = 12;
  std::vector<std::string> lines_;
};

class LocalExecutor final : public Executor {
 public:
  LocalExecutor(std::filesystem::path program, LocalOptions options)
      : program_(std::move(program)), options_(std::move(options)) {}

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    RIDGE_TRY(directory, TempDir::create("ridge-worker"));
    const std::filesystem::path request_path = directory.path() / "request.json";
    const std::filesystem::path response_path = directory.path() / "response.json";
    RIDGE_CHECK_OK(write_file_durably(request_path, record::to_line(request)));

    Complaints complaints;
    bool silent = false;
    Steady::time_point last_sign = Steady::now();
    ProcessSpec spec;
    spec.argv = {program_.string(), request_path.string(), response_path.string()};
    spec.directory = directory.path();
    spec.environment = options_.environment;
    spec.timeout = request.time_limit > 0 ? request.time_limit + options_.grace : 1e9;
    spec.on_error_line = [&](std::string_view line) {
      last_sign = Steady::now();
      if (!line.starts_with(record::kProgressPrefix)) return complaints.add(line);
      line.remove_prefix(record::kProgressPrefix.size());
      const auto progress = record::parse_record<record::Progress>(line, "progress");
      if (progress && on_progress) on_progress(*progress);
    };
    spec.should_stop = [&] {
      silent = std::chrono::duration<double>(Steady::now() - last_sign).count() > options_.silent_limit;
      return silent || (should_stop && should_stop());
    };
    Result<ProcessResult> ended = run_process(spec);
    if (!ended) {
      return with_hint(in_context("ridge-worker", ended.error()),
                       "it belongs beside ridge; build the target ridge-worker");
    }
    if (silent) {
      return make_error(ErrorCode::kTimeout, "the worker showed no sign of life for {} and was killed; {}",
                        format_duration(options_.silent_limit), complaints.text());
    }
    if (ended->end == ProcessResult::End::kStopped) return make_error(ErrorCode::kConflict, "stopped on request");
    return read_response(response_path, *ended, complaints);
  }

 private:
  static Result<record::WorkerResponse> read_response(const std::filesystem::path& path, const ProcessResult& ended,
                                                      const Complaints& complaints) {
    const Result<std::string> text = read_file(path);
    if (!text) {
      const ErrorCode code = ended.end == ProcessResult::End::kTimedOut ? ErrorCode::kTimeout : ErrorCode::kToolFailed;
      return make_error(code, "the worker left no response: it {}; {}", ended.describe(), complaints.text());
    }
    RIDGE_TRY(response, record::parse_record<record::WorkerResponse>(*text, "response"));
    if (response.version != record::WorkerResponse{}.version) {
      return make_error(ErrorCode::kCorrupt, "the worker speaks version {}, this program version {}", response.version,
                        record::WorkerResponse{}.version);
    }
    return response;
  }

  std::filesystem::path program_;
  LocalOptions options_;
};

}  // namespace

std::unique_ptr<Executor> make_local_executor(std::filesystem::path worker_program, LocalOptions options) {
  return std::make_unique<LocalExecutor>(std::move(worker_program), std::move(options));
}

}  // namespace ridge::execute
