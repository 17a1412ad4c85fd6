#include "record/tuned_folder.h"

#include "base/error.h"

namespace ridge::record {

namespace fs = std::filesystem;

fs::path tuned_folder(const fs::path& cache) { return cache / "tuned"; }

Result<int> remove_tuned(const fs::path& cache) {
  std::error_code error;
  int removed = 0;
  for (const auto& entry : fs::directory_iterator(tuned_folder(cache), error)) {
    if (entry.path().extension() != ".jsonl") continue;
    if (!fs::remove(entry.path(), error))
      return make_error(ErrorCode::kIo, "cannot remove {}: {}", entry.path().string(), error.message());
    ++removed;
  }
  return removed;
}

}  // namespace ridge::record
