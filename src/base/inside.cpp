#include "base/inside.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"

namespace ridge {

namespace fs = std::filesystem;

bool lies_in(const fs::path& file, const fs::path& directory) {
  std::error_code no_file, no_directory;
  const fs::path inner = fs::weakly_canonical(file, no_file), outer = fs::weakly_canonical(directory, no_directory);
  return !no_file && !no_directory && std::ranges::mismatch(outer, inner).in1 == outer.end();
}

Status write_inside(const fs::path& directory, const std::string& path, std::string_view content) {
  if (lies_in(directory / path, directory)) return write_file_durably(directory / path, content);
  return with_hint(invalid("{} leads out of {}", path, directory.string()),
                   "nothing is written there: the record names a path of its own, or the folder holds a symbolic link; "
                   "do not trust the record, or remove the link");
}

}  // namespace ridge
