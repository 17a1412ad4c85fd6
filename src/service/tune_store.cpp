#include "service/tune_store.h"

#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/large_file.h"
#include "record/tuning_store_folder.h"

namespace ridge::service {
namespace {

constexpr std::size_t kMostRecordingBytes = std::size_t{512} << 20;

bool asked_for(const record::StoredMeasurement& one, const TuneStoreRequest& request) {
  return (request.device.empty() || one.device == request.device) &&
         (request.clocks.empty() || one.clocks == request.clocks) &&
         (request.compiler.empty() || one.compiler == request.compiler) &&
         (request.problem.empty() || one.problem == request.problem) &&
         (request.origin.empty() || one.origin == request.origin);
}

std::string circumstances_text(const record::StoredMeasurement& one) {
  std::string text = fmt::format("{}; clocks {}; compiler {}", one.device, one.clocks.empty() ? "unknown" : one.clocks,
                                 one.compiler.empty() ? "unknown" : one.compiler);
  if (!one.problem.empty()) text += "; problem " + one.problem;
  if (!one.origin.empty()) text += "; origin " + one.origin;
  return text;
}

}  // namespace

Result<record::TuningStoreReport> import_tuning(const Context& context, const TuneStoreRequest& request) {
  RIDGE_TRY(text, read_file_up_to(request.file, kMostRecordingBytes));
  const auto cache = record::parse_tuning_cache(text);
  if (!cache) return in_context(request.file, cache.error());
  record::StoredMeasurement origin;
  origin.kernel = request.kernel.empty() ? cache->kernel : request.kernel;
  origin.device = request.device.empty() ? cache->device : request.device;
  origin.clocks = request.clocks;
  origin.compiler = request.compiler;
  if (origin.kernel.empty()) return with_hint(invalid("{} names no kernel", request.file), "--kernel NAME");
  if (origin.device.empty()) return with_hint(invalid("{} names no device", request.file), "--device NAME");
  RIDGE_TRY(store, record::OpenTuningStore::open(context.cache_directory, origin.kernel));
  const auto added = record::add_measurements(store.measurements, record::measurements_of(*cache, origin));
  if (!added) return in_context(request.file, added.error());
  RIDGE_CHECK_OK(store.write());
  return record::TuningStoreReport{store.file().string(), origin.kernel, origin.device,
                                   static_cast<std::int64_t>(*added), std::ssize(store.measurements)};
}

Result<record::TuningStoreReport> export_tuning(const Context& context, const TuneStoreRequest& request) {
  if (request.kernel.empty()) return invalid("--kernel NAME: of which kernel?");
  RIDGE_TRY(store, record::stored_measurements(context.cache_directory, request.kernel));
  std::set<std::string> circumstances;
  std::erase_if(store, [&](const record::StoredMeasurement& one) { return !asked_for(one, request); });
  for (const record::StoredMeasurement& one : store) circumstances.insert(circumstances_text(one));
  if (store.empty())
    return make_error(ErrorCode::kNotFound, "nothing is stored of kernel {} that was asked for", request.kernel);
  if (circumstances.size() > 1) {
    return with_hint(
        invalid("{} results under {} circumstances: T4 tells none of them apart", store.size(), circumstances.size()),
        fmt::format("--device, --clocks, --compiler, --problem, --origin: {}", fmt::join(circumstances, " | ")));
  }
  RIDGE_CHECK_OK(write_file_durably(request.file, record::t4_text(store)));
  return record::TuningStoreReport{request.file, request.kernel, store.front().device, 0, std::ssize(store)};
}

}  // namespace ridge::service
