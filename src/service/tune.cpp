#include "service/tune.h"

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "record/backend.h"
#include "record/tuned_folder.h"
#include "service/duration.h"
#include "service/shape_file.h"
#include "service/tune_devices.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

Result<record::WorkerRequest> tuning_request(const TuneRequest& options, AskedCases asked) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kTune;
  request.backend = options.backend;
  request.protocol.threads = options.threads;
  request.again = options.again;
  request.seed = options.seed;
  request.keep_disturbed = options.keep_disturbed;
  request.cases = std::move(asked.cases);
  const auto known = record::find_measured(options.backend, "tables for");
  if (!known) return known.error();
  return request;
}

Status write_table(const std::string& path, const std::vector<record::TunedChoice>& choices, bool keep_disturbed) {
  std::string text;
  for (const record::TunedChoice& one : choices) {
    if (!one.implementation.empty() && (one.disturbed.empty() || keep_disturbed)) text += record::tuned_line(one);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) RIDGE_CHECK_OK(make_directories(folder));
  return write_file_durably(path, text);
}

}  // namespace

// All operators after each other, each with a share of the time that is left by its number of cases.
Result<std::vector<record::TunedChoice>> tune(const Context& context, const TuneRequest& options) {
  if (options.op.empty()) return with_hint(invalid("no operator"), "name one, for instance gemm, or \"all\"");
  RIDGE_TRY(all, asked_cases(options.op, options.words, options.shapes));
  double limit = 0;
  if (!options.limit.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.limit));
    limit = seconds;
  }
  std::vector<record::WorkerRequest> requests;
  std::size_t waiting = 0;
  for (AskedCases& one : all) {
    RIDGE_TRY(request, tuning_request(options, std::move(one)));
    waiting += request.cases.size();
    requests.push_back(std::move(request));
  }
  if (!options.devices.empty()) {
    if (options.backend != record::info_of(Backend::kCuda).name)
      return with_hint(invalid("--devices {} names GPUs, and this is --on {}", options.devices, options.backend),
                       "add --on cuda");
    RIDGE_TRY(devices, devices_of(options.devices));
    RIDGE_TRY(choices, tune_on_devices(context, requests, devices, limit));
    if (!options.ship.empty()) RIDGE_CHECK_OK(write_table(options.ship, choices, options.keep_disturbed));
    return choices;
  }
  SystemClock clock;
  const double start = clock.monotonic();
  std::vector<record::TunedChoice> choices;
  for (record::WorkerRequest& request : requests) {
    const auto cases = static_cast<double>(request.cases.size());
    if (limit > 0) {
      const double left = std::max(limit - (clock.monotonic() - start), 0.1);
      request.time_limit = left * cases / static_cast<double>(waiting);
    }
    waiting -= request.cases.size();
    RIDGE_TRY(response, ask_worker(context, std::move(request)));
    choices.insert(choices.end(), response.tuned.begin(), response.tuned.end());
  }
  if (!options.ship.empty()) RIDGE_CHECK_OK(write_table(options.ship, choices, options.keep_disturbed));
  return choices;
}

Result<int> forget_tuned(const Context& context) { return record::remove_tuned(context.cache_directory.string()); }

}  // namespace ridge::service
