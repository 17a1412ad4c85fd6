#include "campaign/scan.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/hash.h"

namespace ridge::campaign {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether `word` stands in `text`, not as a part of a longer name.
bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !is_word(word.front()) || !is_word(text[at - 1]);
    const std::size_t end = at + word.size();
    const bool ends = end == text.size() || !is_word(word.back()) || !is_word(text[end]);
    if (starts && ends) return true;
  }
  return false;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return has_word(text, word); });
}

// Copies a quoted text and returns the place after it; an unfinished one ends with its line.
std::size_t copy_quoted(std::string_view source, std::size_t at, std::string& out) {
  const char quote = source[at];
  out += source[at++];
  while (at < source.size() && source[at] != '\n') {
    const char c = source[at];
    out += source[at++];
    if (c == '\\' && at < source.size())
      out += source[at++];
    else if (c == quote)
      break;
  }
  return at;
}

std::string squeeze(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (blank && (out.empty() || out.back() == ' ' || out.back() == '\n')) continue;
    if (c == '\n') {
      while (!out.empty() && out.back() == ' ') out.pop_back();
      if (out.empty() || out.back() == '\n') continue;
    }
    out += blank ? ' ' : c;
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A line of code with what is quoted taken out.
std::string unquoted(std::string_view line) {
  std::string code, quoted;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == '"' || line[at] == '\'')
      at = copy_quoted(line, at, quoted);
    else
      code += line[at++];
  }
  return code;
}

// Python: what keys a table on an object rather than on its value. A tensor's hash is its identity, and the caches of
// functools ask for it.
std::string python_memory(std::string_view line) {
  for (const std::string_view word : {"hash(", "__hash__"}) {
    if (has_word(line, word)) return fmt::format("\"{}\" of a tensor is its identity", word);
  }
  if (has_word(line, "OrderedDict")) return "an OrderedDict: a cache that evicts its oldest entry";
  const bool imported = has_word(line, "functools") && has_word(line, "import") && has_any(line, {"cache", "*"});
  const bool decorates = line.starts_with('@') && has_word(line, "cache");
  if (imported || decorates || has_any(line, {"functools.cache", ".cache(", "getattr(functools"})) {
    return "a cache of functools finds a tensor again by its identity";
  }
  return {};
}

std::string identity_memory(std::string_view whole, std::string_view path) {
  const std::string line = unquoted(whole);
  if (path.ends_with(".py")) {
    if (std::string found = python_memory(line); !found.empty()) return found;
  }
  for (const std::string_view word : {"weakref", "data_ptr", "lru_cache", "WeakKeyDictionary", "_version", "id("}) {
    if (has_word(line, word)) return fmt::format("\"{}\" finds a tensor again by its identity", word);
  }
  if (!has_any(line, {"static", "thread_local"}) || has_any(line, {"constexpr", "static_assert", "static_cast"}))
    return {};
  if (has_any(line, {"map", "unordered_map", "set", "unordered_set"})) return "a table that outlives the call";
  const std::size_t pointer = line.find('*'), call = line.find('(');
  if (has_word(line, "const") && pointer != std::string_view::npos && pointer < call && !has_word(line, "char")) {
    return "a pointer to input data that outlives the call";
  }
  return {};
}

std::string baked_in_load(std::string_view line, std::string_view /*path*/) {
  if (has_any(line, {"assert", "static_assert", "TORCH_CHECK", "tl.static_assert"}) &&
      line.find('%') != std::string_view::npos && has_any(line, {"BLOCK_M", "M_per_group", "tokens", "group_size"})) {
    return "asserts that a group divides by the block";
  }
  const bool constant = has_any(line, {"constexpr", "#define", "tl.constexpr", "enum"});
  if (constant && has_any(line, {"M_per_group", "group_size", "tokens_per_expert", "GROUP_M"})) {
    return "a group's size is fixed when it is compiled";
  }
  if (has_any(line, {"assert", "static_assert", "TORCH_CHECK"}) &&
      has_any(line, {"tokens", "group_size", "M_per_group"}) && line.find("> 0") != std::string_view::npos) {
    return "assumes that no group is empty";
  }
  return {};
}

std::vector<ScanFinding> scan(const record::Candidate& before, const record::Candidate& candidate,
                              std::string (*question)(std::string_view, std::string_view)) {
  std::vector<ScanFinding> findings;
  for (const auto& [path, line] : added_lines(before, candidate)) {
    std::string what = question(line, path);
    if (!what.empty()) findings.push_back({path, line, std::move(what)});
  }
  return findings;
}

}  // namespace

std::string without_comments(std::string_view source, std::string_view path) {
  const bool python = path.ends_with(".py");
  std::string out;
  for (std::size_t at = 0; at < source.size();) {
    if (source[at] == '"' || source[at] == '\'') {
      at = copy_quoted(source, at, out);
    } else if (python ? source[at] == '#' : source.substr(at, 2) == "//") {
      at = std::min(source.find('\n', at), source.size());
    } else if (!python && source.substr(at, 2) == "/*") {
      const std::size_t end = source.find("*/", at + 2);
      at = end == std::string_view::npos ? source.size() : end + 2;
      out += ' ';
    } else {
      out += source[at++];
    }
  }
  return python ? out : squeeze(out);  // indentation is meaning in Python
}

std::string meaning_of(const record::Candidate& candidate) {
  record::Candidate plain = candidate;
  for (record::SourceFile& source : plain.sources) {
    // What a source declares about its tunables stands in a comment and is meaning.
    const std::size_t declared = source.text.find("ridge-tunables");
    const std::string space = declared == std::string::npos
                                  ? std::string()
                                  : source.text.substr(declared, source.text.find("*/", declared) - declared);
    source.text = without_comments(source.text, source.path) + space;
  }
  return plain.id();
}

std::string ScanFinding::text() const { return fmt::format("{}: \"{}\": {}", path, line.substr(0, 120), what); }

std::vector<std::pair<std::string, std::string>> added_lines(const record::Candidate& before,
                                                             const record::Candidate& candidate) {
  std::map<std::string, int> known;
  for (const record::SourceFile& source : before.sources) {
    for (const std::string& line : lines_of(squeeze(without_comments(source.text, source.path)))) ++known[line];
  }
  std::vector<std::pair<std::string, std::string>> added;
  for (const record::SourceFile& source : candidate.sources) {
    for (const std::string& line : lines_of(squeeze(without_comments(source.text, source.path)))) {
      if (known[line]-- <= 0) added.emplace_back(source.path, line);
    }
  }
  return added;
}

std::vector<ScanFinding> find_identity_memory(const record::Candidate& before, const record::Candidate& candidate) {
  return scan(before, candidate, identity_memory);
}
std::vector<ScanFinding> find_baked_in_load(const record::Candidate& before, const record::Candidate& candidate) {
  return scan(before, candidate, baked_in_load);
}

std::vector<std::string> cache_words(std::string_view prose) {
  std::vector<std::string> found;
  for (const std::string_view word : {"OrderedDict", "weakref", "lru_cache", "functools.cache", "__hash__", "hash(",
                                      "id(", "data_ptr", "memoize", "memoise"}) {
    if (has_word(prose, word)) found.emplace_back(word);
  }
  return found;
}

std::vector<std::string> exported_names(const record::Candidate& candidate) {
  std::set<std::string> names;
  constexpr std::string_view kLinkage = "extern \"C\"";
  for (const record::SourceFile& source : candidate.sources) {
    const std::string text = without_comments(source.text, source.path);
    for (std::size_t at = text.find(kLinkage); at != std::string::npos; at = text.find(kLinkage, at + 1)) {
      const std::size_t open = text.find('(', at);
      const std::size_t block = text.find('{', at);
      if (open == std::string::npos || block < open) continue;
      std::size_t end = open;
      while (end > at && text[end - 1] == ' ') --end;
      std::size_t begin = end;
      while (begin > at && is_word(text[begin - 1])) --begin;
      if (begin < end) names.insert(text.substr(begin, end - begin));
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace ridge::campaign
