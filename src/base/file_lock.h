// A file that one process or thread at a time has: what is read and written again in between loses nothing.
#pragma once

#include <filesystem>

#include "ridge/result.h"

namespace ridge {

class FileLock {
 public:
  // Waits for the one that has it; makes the file where it is missing, and leaves it there. Gone with its process.
  static Result<FileLock> take(const std::filesystem::path& file);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace ridge
