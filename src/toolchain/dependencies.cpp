#include "toolchain/dependencies.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/process.h"

namespace ridge::toolchain {
namespace {

namespace fs = std::filesystem;

bool inside(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

// Symbolic links resolved as far as the path exists: a build that is over may have been seen from elsewhere.
fs::path real_path(const fs::path& path) {
  std::error_code failure;
  const fs::path found = fs::weakly_canonical(path, failure);
  return failure ? path.lexically_normal() : found;
}

Result<std::vector<fs::path>> ask(const std::string& compiler) {
  ProcessSpec spec;
  spec.argv = {compiler, "-x", "c++", "-E", "-v", "/dev/null"};
  spec.timeout = 20.0;
  spec.environment = {{"LC_ALL", "C"}, {"CCACHE_DISABLE", "1"}};
  RIDGE_TRY(ended, run_process(spec));
  std::vector<fs::path> folders;
  std::string_view rest = ended.error_output;
  bool listed = false;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with("End of search list")) break;
    if (listed && line.starts_with(' ')) folders.push_back(real_path(fs::path(line.substr(1))));
    listed = listed || line.starts_with("#include <...> search starts here");
  }
  if (!ended.succeeded() || folders.empty()) {
    return make_error(ErrorCode::kToolFailed, "{} does not say where it looks for headers", compiler);
  }
  return folders;
}

}  // namespace

std::vector<std::string> read_dependencies(std::string_view rules) {
  std::vector<std::string> names;
  std::string word;
  bool behind_target = false;
  const auto finish = [&] {
    if (!word.empty() && behind_target) names.push_back(word);
    if (!word.empty() && word.back() == ':' && !behind_target) behind_target = true;
    word.clear();
  };
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const char c = rules[i], next = i + 1 < rules.size() ? rules[i + 1] : '\n';
    if (c == '\\' && next == '\n') {
      finish();
      ++i;
    } else if (c == '\\' && (next == ' ' || next == '#' || next == '\\' || next == ':')) {
      word += next;
      ++i;
    } else if (c == '$' && next == '$') {
      word += '$';
      ++i;
    } else if (c == ' ' || c == '\t') {
      finish();
    } else if (c == '\n') {
      finish();
      behind_target = false;  // the next line is a rule of its own
    } else {
      word += c;
    }
  }
  finish();
  return names;
}

Result<std::vector<fs::path>> header_folders(const std::string& compiler) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<fs::path>> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(compiler); found != known.end()) return found->second;
  RIDGE_TRY(folders, ask(compiler));
  return known[compiler] = folders;
}

std::optional<std::string> undeclared(const std::vector<std::string>& read, const fs::path& directory,
                                      std::span<const std::string> declared, std::span<const fs::path> folders) {
  const fs::path here = real_path(directory);
  for (const std::string& name : read) {
    const fs::path path = real_path(fs::path(name).is_absolute() ? fs::path(name) : here / name);
    const bool own = std::any_of(declared.begin(), declared.end(),
                                 [&](const std::string& one) { return path == (here / one).lexically_normal(); });
    const bool header =
        std::any_of(folders.begin(), folders.end(), [&](const fs::path& one) { return inside(path, one); });
    if (!own && !header) return name;
  }
  return std::nullopt;
}

}  // namespace ridge::toolchain
