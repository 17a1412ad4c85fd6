// Where measurements of configurations are kept in a cache folder: a file a kernel, written anew as a whole or not at
// all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "record/tuning_store.h"

namespace ridge::record {

// All that is kept of a kernel; none where nothing is.
Result<std::vector<StoredMeasurement>> stored_measurements(const std::filesystem::path& cache,
                                                           const std::string& kernel);

// What is kept of a kernel, to be changed and written again. Nobody else writes meanwhile: what two keep at the same
// time is kept of both.
class OpenTuningStore {
 public:
  static Result<OpenTuningStore> open(const std::filesystem::path& cache, const std::string& kernel);
  [[nodiscard]] Status write() const;
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

  std::vector<StoredMeasurement> measurements;

 private:
  OpenTuningStore(std::filesystem::path file, FileLock lock) : file_(std::move(file)), lock_(std::move(lock)) {}
  std::filesystem::path file_;
  FileLock lock_;
};

// Keeps these, all of one kernel, instead of what was kept of their devices, problems and origins.
Status store_measurements(const std::filesystem::path& cache, const std::vector<StoredMeasurement>& measurements);

}  // namespace ridge::record
