// Files that survive a crash: whole-file reads, atomic durable writes, private temporary directories.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

Result<std::string> read_file(const std::filesystem::path& path);

// Writes to a sibling temporary file, fsyncs it, renames it over `path` and fsyncs the directory: after a crash `path`
// holds the old content or the new, never a part. Several may write at once, and one of them is last. Creates missing
// parent directories.
Status write_file_durably(const std::filesystem::path& path, std::string_view content);

// Removes the temporary files that write_file_durably() left in a folder and below when its process was killed. Only
// for the one process that writes there.
Status remove_unfinished_files(const std::filesystem::path& directory);

// fsync of a directory, which makes a rename or a new file in it durable.
Status sync_directory(const std::filesystem::path& directory);

Status make_directories(const std::filesystem::path& directory);

// A fresh directory under the system's temporary directory, removed with its content when this object goes.
class TempDir {
 public:
  static Result<TempDir> create(std::string_view prefix);
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit TempDir(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace ridge
