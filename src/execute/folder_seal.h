// What a folder holds at one moment, and whether it still does: the benchmark, the test and everything else around a
// kernel must be the same for both arms in every process.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::execute {

class FolderSeal {
 public:
  // Every file and link below `root` as it is now. What lies at or below one of `writes` (relative) is not looked at.
  static Result<FolderSeal> take(std::filesystem::path root, std::vector<std::string> writes);

  // Removes files that were added since, and names the first one that was changed or removed; empty: none was. A file
  // whose time of change, which no program can set back, is as it was, is not read again.
  Result<std::string> broken();
  // Files that are not as they were, those that were added left out.
  [[nodiscard]] Result<std::vector<std::string>> changed() const;
  // Files and links that were not there.
  [[nodiscard]] Result<std::vector<std::string>> added() const;
  // Removes these of them.
  [[nodiscard]] Status remove(const std::vector<std::string>& names) const;

 private:
  struct Known {
    std::string digest;  // of a link: what it points at
    bool link = false;
    std::uint64_t inode = 0;
    std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;  // of the last change of the file or its inode
    [[nodiscard]] bool same_inode(const Known& other) const;
  };
  static Result<Known> look(const std::filesystem::path& path, bool with_digest);
  [[nodiscard]] bool ignored(const std::string& relative) const;
  // Relative paths of all files and links below the root that are looked at.
  [[nodiscard]] Result<std::vector<std::string>> list() const;

  std::filesystem::path root_;
  std::vector<std::string> writes_;
  std::map<std::string, Known> files_;
};

}  // namespace ridge::execute
