#include "service/tune.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "execute/make_executor.h"
#include "record/backend.h"
#include "record/tuned_folder.h"
#include "service/duration.h"
#include "service/machines.h"
#include "service/shape_file.h"
#include "service/tune_devices.h"

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
    if (belongs_in_table(one, keep_disturbed)) text += record::tuned_line(one);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) RIDGE_CHECK_OK(make_directories(folder));
  return write_file_durably(path, text);
}

// Whether it can be tuned there.
Status check_place(const TuneRequest& options) {
  const std::string& place = options.measure_on;
  if (execute::is_default(place)) return ok_status();
  RIDGE_CHECK_OK(execute::check_executor(place));
  if (execute::is_local(place) && options.backend != record::info_of(Backend::kCuda).name)
    return with_hint(invalid("{} names GPUs, and this is --on {}", place, options.backend), "add --on cuda");
  return ok_status();
}

}  // namespace

// Of every operator a request; limits come later, with the devices.
Result<std::vector<record::TunedChoice>> tune(const Context& context, const TuneRequest& options) {
  if (options.op.empty()) return with_hint(invalid("no operator"), "name one, for instance gemm, or \"all\"");
  RIDGE_TRY(all, asked_cases(options.op, options.words, options.shapes));
  DeviceTuning where{options.measure_on, 0};
  if (!options.limit.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.limit));
    where.limit = seconds;
  }
  std::vector<record::WorkerRequest> requests;
  for (AskedCases& one : all) {
    RIDGE_TRY(request, tuning_request(options, std::move(one)));
    requests.push_back(std::move(request));
  }
  RIDGE_CHECK_OK(check_place(options));
  RIDGE_TRY(there, context_on(context, {"", options.measure_on}, false));
  RIDGE_TRY(choices, tune_on_devices(there, requests, where));
  if (!options.ship.empty()) RIDGE_CHECK_OK(write_table(options.ship, choices, options.keep_disturbed));
  return choices;
}

Result<int> forget_tuned(const Context& context) { return record::remove_tuned(context.cache_directory.string()); }

}  // namespace ridge::service
