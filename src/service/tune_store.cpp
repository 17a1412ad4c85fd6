#include "service/tune_store.h"

#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/large_file.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostStoreBytes = std::size_t{512} << 20;

// A file a kernel, whose name may hold any character.
fs::path file_of(const Context& context, const std::string& kernel) {
  return context.cache_directory / "measurements" / (sha256(kernel).substr(0, 16) + ".jsonl");
}

Result<std::vector<record::StoredMeasurement>> read_store(const fs::path& file) {
  if (!fs::exists(file)) return std::vector<record::StoredMeasurement>();
  RIDGE_TRY(text, read_file_up_to(file, kMostStoreBytes));
  auto store = record::parse_tuning_store(text);
  if (!store) return in_context(file.string(), store.error());
  return store;
}

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

// Of one kernel, to be read and written again.
struct OpenStore {
  fs::path file;
  FileLock lock;  // stores that are written at the same time lose nothing
  std::vector<record::StoredMeasurement> measurements;
};
Result<OpenStore> open_store(const Context& context, const std::string& kernel) {
  const fs::path file = file_of(context, kernel);
  RIDGE_CHECK_OK(make_directories(file.parent_path()));
  RIDGE_TRY(lock, FileLock::take(file.parent_path() / "lock"));
  RIDGE_TRY(measurements, read_store(file));
  return OpenStore{file, std::move(lock), std::move(measurements)};
}

}  // namespace

Result<std::vector<record::StoredMeasurement>> stored_measurements(const Context& context, const std::string& kernel) {
  return read_store(file_of(context, kernel));
}

Status store_measurements_of(const Context& context, const std::string& origin,
                             const std::vector<record::StoredMeasurement>& measurements) {
  if (measurements.empty()) return ok_status();
  RIDGE_TRY(store, open_store(context, measurements.front().kernel));
  std::erase_if(store.measurements, [&](const record::StoredMeasurement& one) { return one.origin == origin; });
  store.measurements.insert(store.measurements.end(), measurements.begin(), measurements.end());
  return write_file_durably(store.file, record::tuning_store_text(store.measurements));
}

Result<record::TuningStoreReport> import_tuning(const Context& context, const TuneStoreRequest& request) {
  RIDGE_TRY(text, read_file_up_to(request.file, kMostStoreBytes));
  const auto cache = record::parse_tuning_cache(text);
  if (!cache) return in_context(request.file, cache.error());
  record::StoredMeasurement origin;
  origin.kernel = request.kernel.empty() ? cache->kernel : request.kernel;
  origin.device = request.device.empty() ? cache->device : request.device;
  origin.clocks = request.clocks;
  origin.compiler = request.compiler;
  if (origin.kernel.empty()) return with_hint(invalid("{} names no kernel", request.file), "--kernel NAME");
  if (origin.device.empty()) return with_hint(invalid("{} names no device", request.file), "--device NAME");
  RIDGE_TRY(store, open_store(context, origin.kernel));
  const auto added = record::add_measurements(store.measurements, record::measurements_of(*cache, origin));
  if (!added) return in_context(request.file, added.error());
  RIDGE_CHECK_OK(write_file_durably(store.file, record::tuning_store_text(store.measurements)));
  return record::TuningStoreReport{store.file.string(), origin.kernel, origin.device, static_cast<std::int64_t>(*added),
                                   std::ssize(store.measurements)};
}

Result<record::TuningStoreReport> export_tuning(const Context& context, const TuneStoreRequest& request) {
  if (request.kernel.empty()) return invalid("--kernel NAME: of which kernel?");
  RIDGE_TRY(store, read_store(file_of(context, request.kernel)));
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
