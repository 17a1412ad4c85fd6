#include "campaign/inside.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"

namespace ridge::campaign {

namespace fs = std::filesystem;

bool lies_in(const fs::path& file, const fs::path& directory) {
  std::error_code ignored;
  const fs::path inner = fs::weakly_canonical(file, ignored), outer = fs::weakly_canonical(directory, ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

Status write_inside(const fs::path& directory, const std::string& path, std::string_view content) {
  if (lies_in(directory / path, directory)) return write_file_durably(directory / path, content);
  return with_hint(invalid("{} leads out of {}", path, directory.string()),
                   "nothing is written there: the record names a path of its own, or the folder holds a symbolic link; "
                   "do not trust the record, or remove the link");
}

}  // namespace ridge::campaign
