// ridge tune: measures which implementation is fastest for each bucket of cases, and keeps that for dispatch.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "record/archive.h"
#include "record/case_list.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct TuneOptions {
  std::string op, backend = "cpu", shapes, limit, ship;
  std::vector<std::string> words;
  std::int64_t threads = 1;
  bool again = false;
};

// Lines of a file of shapes, one case each; # begins a comment.
Result<std::vector<std::string>> read_shapes(const std::string& path) {
  RIDGE_TRY(text, read_file(path));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line = line.substr(0, line.find('#'));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    // One word alone would be multiplied with the other lines.
    if (!line.empty()) lines.push_back(line.find(' ') == std::string::npos ? line + " " : line);
  }
  if (lines.empty()) return with_hint(invalid("{} holds no case", path), "write one a line: m=4096 n=4096 k=4096");
  return lines;
}

Result<record::WorkerRequest> request_of(const TuneOptions& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kTune;
  request.backend = options.backend;
  request.protocol.threads = options.threads;
  request.again = options.again;
  if (options.backend != "cpu" && options.backend != "cuda") {
    return with_hint(invalid("nothing is tuned on \"{}\"", options.backend), "use --on cpu or --on cuda");
  }
  if (!options.limit.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.limit));
    request.time_limit = seconds;
  }
  std::vector<std::string> words = options.words;
  if (!options.shapes.empty()) {
    RIDGE_TRY(lines, read_shapes(options.shapes));
    words.insert(words.end(), lines.begin(), lines.end());
  }
  if (words.empty()) {
    request.cases = {record::Case{options.op, {}}};  // the operator's own
    return request;
  }
  RIDGE_TRY(cases, record::expand_cases(options.op, words));
  request.cases = std::move(cases);
  return request;
}

Status write_table(const std::string& path, const std::vector<record::TunedChoice>& choices) {
  std::string text;
  for (const record::TunedChoice& one : choices) {
    if (!one.implementation.empty()) text += record::tuned_line(one);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) RIDGE_CHECK_OK(make_directories(folder));
  return write_file_durably(path, text);
}

void print(const std::vector<record::TunedChoice>& choices) {
  std::vector<std::vector<std::string>> rows;
  for (const record::TunedChoice& one : choices) {
    rows.push_back({one.bucket.label(), one.implementation.empty() ? "-" : one.implementation,
                    one.implementation == one.over ? "" : fmt::format("{:.3f} x {}", one.ratio, one.over),
                    fmt::format("{}", fmt::join(one.refused, "; "))});
  }
  fmt::print("{}", table({"bucket", "fastest", "against the default", "refused"}, rows));
}

int tune(const TuneOptions& options) {
  Result<record::WorkerRequest> request = request_of(options);
  if (!request) return fail(request.error());
  const Result<record::WorkerResponse> response = ask_worker(std::move(*request));
  if (!response) return fail(response.error());
  const std::vector<record::TunedChoice>& choices = response->tuned;
  if (!options.ship.empty()) {
    if (const Status written = write_table(options.ship, choices); !written) return fail(written.error());
  }
  if (globals().json) {
    fmt::print("{}\n", pretty_json(record::to_json(choices)));
  } else {
    print(choices);
    fmt::print("Kept in {}; dispatch prefers them from the next process on.\n", cache_directory() + "/tuned");
  }
  const auto failed = [](const record::TunedChoice& one) { return one.implementation.empty(); };
  return choices.empty() || std::any_of(choices.begin(), choices.end(), failed) ? kNo : kSuccess;
}

}  // namespace

void define_tune(Command root) {
  auto options = std::make_shared<TuneOptions>();
  root.subcommand("tune", "Find the fastest implementation for each bucket of cases, and keep it for dispatch")
      .positional("operator", options->op, "Operator, for instance gemm")
      .positional("case", options->words, "Shapes; without any, and without --shapes, the operator's own", false)
      .option("--on", options->backend, "Backend: cpu or cuda")
      .option("--shapes", options->shapes, "A file with one case a line, for instance data/shapes/dense.txt")
      .option("--time-limit", options->limit, "For all cases together; what is left out is tuned by the next call")
      .option("--threads", options->threads, "CPU threads of one call")
      .option("--ship", options->ship, "Also write the lines to this file, for data/tuned or RIDGE_TUNED_DIR")
      .flag("--again", options->again, "Measure what the table knows already, too")
      .example("ridge tune gemm m=512,2048 n=1024 k=1024", "two buckets on this processor")
      .example("ridge tune gemm --on cuda --shapes data/shapes/dense.txt dtype=bf16 layout=nt",
               "the shapes of a file on the GPU, every call verified")
      .example("ridge tune gemm --on cuda --ship data/tuned/nvidia-h200.jsonl", "a table that ships")
      .action([options] { return tune(*options); });
}

}  // namespace ridge::cli
