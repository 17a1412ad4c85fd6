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
         (request.compiler.empty() || one.compiler == request.compiler);
}

std::string circumstances_text(const record::StoredMeasurement& one) {
  return fmt::format("{}; clocks {}; compiler {}", one.device, one.clocks.empty() ? "unknown" : one.clocks,
                     one.compiler.empty() ? "unknown" : one.compiler);
}

}  // namespace

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
  const fs::path file = file_of(context, origin.kernel);
  RIDGE_CHECK_OK(make_directories(file.parent_path()));
  RIDGE_TRY(lock, FileLock::take(file.parent_path() / "lock"));  // imports at the same time lose nothing
  RIDGE_TRY(store, read_store(file));
  const auto added = record::add_measurements(store, record::measurements_of(*cache, origin));
  if (!added) return in_context(request.file, added.error());
  RIDGE_CHECK_OK(write_file_durably(file, record::tuning_store_text(store)));
  return record::TuningStoreReport{file.string(), origin.kernel, origin.device, static_cast<std::int64_t>(*added),
                                   std::ssize(store)};
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
        fmt::format("--device, --clocks, --compiler: {}", fmt::join(circumstances, " | ")));
  }
  RIDGE_CHECK_OK(write_file_durably(request.file, record::t4_text(store)));
  return record::TuningStoreReport{request.file, request.kernel, store.front().device, 0, std::ssize(store)};
}

}  // namespace ridge::service
