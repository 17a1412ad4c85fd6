#include "cheats/head_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"

namespace ridge::cheats {
namespace {

namespace fs = std::filesystem;

template <class Enum>
Enum value_of(const fs::path& file, const std::string& name) {
  for (const auto& [value, text] : record::EnumNames<Enum>::kNames) {
    if (text == name) return value;
  }
  refuse(file, fmt::format("\"{}\" is no value of this key", name));
}

}  // namespace

void refuse(const fs::path& file, const std::string& why) {
  fmt::print(stderr, "{}: {}\n", file.string(), why);
  std::abort();
}

std::string text_of(const fs::path& file) {
  Result<std::string> text = read_file(file);
  if (!text) refuse(file, text.error().text());
  return std::move(*text);
}

std::vector<std::string> words_of(const std::string& text, char at) {
  std::vector<std::string> parts = ridge::split(text, at);
  std::erase(parts, "");
  return parts;
}

record::Defence gate_of(const fs::path& file, const std::string& name) { return value_of<record::Defence>(file, name); }
record::Outcome outcome_of(const fs::path& file, const std::string& name) {
  return value_of<record::Outcome>(file, name);
}

void set_params(const std::string& list, record::Case& problem) {
  for (const std::string& param : words_of(list, ',')) {
    problem.set(param.substr(0, param.find('=')), param.substr(param.find('=') + 1));
  }
}

HeadLine read_head_line(const fs::path& file) {
  HeadLine head{text_of(file), false, {}};
  const std::string line = head.text.substr(0, head.text.find('\n'));
  head.honest = line.starts_with("// ridge-honest:");
  if (!head.honest && !line.starts_with("// ridge-cheat:"))
    refuse(file, "its first line says neither cheat nor honest");
  for (const std::string& word : words_of(line.substr(line.find(':') + 1), ' ')) {
    const std::size_t equals = word.find('=');
    head.words.emplace_back(word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
  }
  return head;
}

std::vector<fs::path> candidates_in(const std::vector<fs::path>& folders, const std::string& extension) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == extension) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) { return a.stem() < b.stem(); });
  return files;
}

}  // namespace ridge::cheats
