// One writer of a folder at a time, also across processes.
#pragma once

#include <filesystem>

#include "ridge/result.h"

namespace ridge::knowledge {

class FolderLock {
 public:
  // Waits for the writer that has it.
  static Result<FolderLock> take(const std::filesystem::path& directory);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();  // removes its file

 private:
  FolderLock(int file, std::filesystem::path path) : file_(file), path_(std::move(path)) {}
  int file_;
  std::filesystem::path path_;
};

// Removes the file that an earlier version, or a writer that was killed, left there.
Status remove_stale_lock(const std::filesystem::path& directory);

}  // namespace ridge::knowledge
