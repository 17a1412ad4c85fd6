#include "toolchain/device_includes.h"

#include <algorithm>
#include <array>
#include <cctype>
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

constexpr std::string_view kBlanks = " \t\n\r\v\f";

bool in_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The text as it is, and with lines joined that a backslash continues, for compilers that allow blanks behind it and
// for those that do not.
std::array<std::string, 3> readings(const std::string& text) {
  std::array<std::string, 3> all = {text, {}, {}};
  for (const bool blanks : {false, true}) {
    std::string& joined = all[blanks ? 2 : 1];
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::size_t end = i + 1;
      while (blanks && end < text.size() && (text[end] == ' ' || text[end] == '\t')) ++end;
      if (end < text.size() && text[end] == '\r') ++end;
      if (text[i] == '\\' && end < text.size() && text[end] == '\n') {
        i = end;
      } else {
        joined += text[i];
      }
    }
  }
  return all;
}

std::string line_of(const std::string& text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// Whether the word "include" at a place may be the name of a directive: behind #, %:, the end of a comment or a splice.
bool may_be_directive(std::string_view text, std::size_t at) {
  if (at == 0 || in_identifier(text[at - 1])) return false;
  const std::size_t last = text.find_last_not_of(kBlanks, at - 1);
  if (last == std::string_view::npos) return false;
  const char before = text[last], earlier = last > 0 ? text[last - 1] : ' ';
  return before == '#' || before == '\\' || (before == ':' && earlier == '%') || (before == '/' && earlier == '*');
}

// Whether it belongs to __has_include("name"), and not to a question whether that exists.
bool asks_for_a_file(std::string_view text, std::size_t at) {
  constexpr std::string_view kAsks = "__has_";
  if (at < kAsks.size() || text.substr(at - kAsks.size(), kAsks.size()) != kAsks) return false;
  std::string_view head = text.substr(0, at - kAsks.size());
  const std::size_t last = head.find_last_not_of(" \t(");
  head = head.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return !head.ends_with("defined") && !head.ends_with("ifdef") && !head.ends_with("ifndef");
}

// What stands in the parentheses of __has_include, delimiters included.
std::string operand_at(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t("), rest.size()));
  if (rest.empty() || (rest.front() != '"' && rest.front() != '<')) return {};
  return std::string(rest.substr(0, rest.find(rest.front() == '<' ? '>' : '"', 1) + 1));
}

bool lies_inside(const fs::path& folder, const std::string& name) {
  return !name.empty() && !fs::path(name).is_absolute() && stays_inside((folder / name).lexically_normal().string());
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

// Everything that a compiler could take for an #include must be a plain one, alone in its line: comments, line splices
// and digraphs (%:) can hide a directive from a reader that goes line by line.
std::string include_outside(const record::SourceFile& file) {
  const fs::path folder = fs::path(file.path).parent_path();
  for (const std::string& text : readings(file.text)) {
    for (std::size_t at = text.find("include"); at != std::string::npos; at = text.find("include", at + 1)) {
      const std::string line = line_of(text, at);
      if (asks_for_a_file(text, at)) {
        const std::string name = name_of(operand_at(std::string_view(text).substr(at + 7)));
        if (!lies_inside(folder, name)) return line;
      } else if (may_be_directive(text, at)) {
        const std::vector<std::string> operands = include_operands(line);
        const std::size_t odd = line.find('\r');  // a compiler may take it for the end of the line
        if (operands.empty() || (odd != std::string::npos && odd + 1 < line.size())) return line;
        if (!lies_inside(folder, name_of(operands.front()))) return operands.front();
      }
    }
  }
  return {};
}

}  // namespace ridge::toolchain
