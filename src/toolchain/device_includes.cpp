#include "toolchain/device_includes.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/files.h"
#include "base/hash.h"
#include "toolchain/names.h"

namespace ridge::toolchain {
namespace {

namespace fs = std::filesystem;

// What stands behind #include on each line that has one, delimiters included.
std::vector<std::string> include_operands(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto skip_space = [&line] {
      while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    };
    skip_space();
    if (!line.starts_with('#')) continue;
    line.remove_prefix(1);
    skip_space();
    if (!line.starts_with("include")) continue;
    line.remove_prefix(7);
    skip_space();
    const std::size_t close = line.empty() ? std::string_view::npos : line.find(line[0] == '<' ? '>' : '"', 1);
    found.emplace_back(line.substr(0, close == std::string_view::npos ? line.size() : close + 1));
  }
  return found;
}

std::string name_of(const std::string& operand) {
  const bool quoted = operand.size() > 2 && ((operand.front() == '"' && operand.back() == '"') ||
                                             (operand.front() == '<' && operand.back() == '>'));
  return quoted ? operand.substr(1, operand.size() - 2) : std::string();
}

class IncludeSearch {
 public:
  IncludeSearch(std::span<const record::SourceFile> files, std::span<const std::string> folders)
      : files_(files), folders_(folders) {}

  std::string run() {
    for (const record::SourceFile& file : files_) follow(file.text, fs::path(file.path).parent_path(), true);
    std::string lines;
    for (const auto& [path, digest] : headers_) lines += path + " " + digest + "\n";
    return lines;
  }

 private:
  void follow(std::string_view text, const fs::path& folder, bool own) {
    for (const std::string& operand : include_operands(text)) {
      const std::string name = name_of(operand);
      if (name.empty() || (own && among_files(folder, name))) continue;
      if (!own && take(folder / name)) continue;
      for (const std::string& candidate : folders_) {
        if (take(fs::path(candidate) / name)) break;
      }
    }
  }

  [[nodiscard]] bool among_files(const fs::path& folder, const std::string& name) const {
    const std::string beside = (folder / name).lexically_normal().string();
    return std::ranges::any_of(files_, [&](const auto& file) { return file.path == beside || file.path == name; });
  }

  // Whether there is such a file; it is read and followed once.
  bool take(const fs::path& path) {
    const std::string normal = path.lexically_normal().string();
    if (headers_.contains(normal)) return true;
    const Result<std::string> text = read_file(normal);
    if (!text) return false;
    headers_[normal] = sha256(*text);
    follow(*text, fs::path(normal).parent_path(), false);
    return true;
  }

  std::span<const record::SourceFile> files_;
  std::span<const std::string> folders_;
  std::map<std::string, std::string> headers_;
};

}  // namespace

std::string toolkit_headers(std::span<const record::SourceFile> files, std::span<const std::string> folders) {
  return IncludeSearch(files, folders).run();
}

std::string include_outside(const record::SourceFile& file) {
  for (const std::string& operand : include_operands(file.text)) {
    const std::string name = name_of(operand);
    if (name.empty() || fs::path(name).is_absolute()) return operand;
    const fs::path place = (fs::path(file.path).parent_path() / name).lexically_normal();
    if (!stays_inside(place.string())) return operand;
  }
  return {};
}

}  // namespace ridge::toolchain
