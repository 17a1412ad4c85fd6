#include "record/tuned_folder.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/files.h"

namespace ridge::record {

namespace fs = std::filesystem;

fs::path tuned_folder(const fs::path& cache) { return cache / "tuned"; }

namespace {

// One device's table, while nobody else writes it.
Status add_lines(const fs::path& file, const std::vector<TunedChoice>& lines) {
  std::vector<TunedChoice> all;
  if (fs::exists(file)) {
    RIDGE_TRY(text, read_file(file));
    RIDGE_TRY(known, parse_tuned(text, file.string()));
    all = std::move(known);
  }
  for (const TunedChoice& line : lines) {
    std::erase_if(all, [&](const TunedChoice& old) { return old.device == line.device && old.bucket == line.bucket; });
    all.push_back(line);
  }
  std::string text;
  for (const TunedChoice& one : all) text += tuned_line(one);
  return write_file_durably(file, text);
}

}  // namespace

Status keep_tuned(const std::vector<TunedChoice>& choices, const fs::path& cache) {
  if (choices.empty()) return ok_status();
  std::map<std::string, std::vector<TunedChoice>> of_file;
  for (const TunedChoice& choice : choices) of_file[tuned_file_name(choice.device)].push_back(choice);
  RIDGE_CHECK_OK(make_directories(tuned_folder(cache)));
  RIDGE_TRY(lock, FileLock::take(cache / "tuned.lock"));
  for (const auto& [name, lines] : of_file) RIDGE_CHECK_OK(add_lines(tuned_folder(cache) / name, lines));
  return ok_status();
}

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
