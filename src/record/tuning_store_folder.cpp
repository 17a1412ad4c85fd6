#include "record/tuning_store_folder.h"

#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/large_file.h"

namespace ridge::record {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostStoreBytes = std::size_t{512} << 20;

// The name of a kernel may hold any character.
fs::path store_of(const fs::path& cache, const std::string& kernel) {
  return cache / "measurements" / (sha256(kernel).substr(0, 16) + ".jsonl");
}

Result<std::vector<StoredMeasurement>> read_store(const fs::path& file) {
  if (!fs::exists(file)) return std::vector<StoredMeasurement>();
  RIDGE_TRY(text, read_file_up_to(file, kMostStoreBytes));
  auto store = parse_tuning_store(text);
  if (!store) return in_context(file.string(), store.error());
  return store;
}

}  // namespace

Result<std::vector<StoredMeasurement>> stored_measurements(const fs::path& cache, const std::string& kernel) {
  return read_store(store_of(cache, kernel));
}

Result<OpenTuningStore> OpenTuningStore::open(const fs::path& cache, const std::string& kernel) {
  const fs::path file = store_of(cache, kernel);
  RIDGE_CHECK_OK(make_directories(file.parent_path()));
  RIDGE_TRY(lock, FileLock::take(file.parent_path() / "lock"));
  RIDGE_TRY(measurements, read_store(file));
  OpenTuningStore store(file, std::move(lock));
  store.measurements = std::move(measurements);
  return store;
}

Status OpenTuningStore::write() const { return write_file_durably(file_, tuning_store_text(measurements)); }

Status store_measurements(const fs::path& cache, const std::vector<StoredMeasurement>& measurements) {
  if (measurements.empty()) return ok_status();
  std::set<TuningSource> renewed;
  for (const StoredMeasurement& one : measurements) renewed.insert(source_of(one));
  RIDGE_TRY(store, OpenTuningStore::open(cache, measurements.front().kernel));
  std::erase_if(store.measurements, [&](const StoredMeasurement& one) { return renewed.contains(source_of(one)); });
  store.measurements.insert(store.measurements.end(), measurements.begin(), measurements.end());
  return store.write();
}

}  // namespace ridge::record
