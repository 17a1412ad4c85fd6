#include "hardware/wiki.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "hardware/text.h"

namespace fs = std::filesystem;

namespace ridge::hardware {
namespace {

constexpr const char* kLockFile = "pages.sha256";

std::vector<std::string> cells(std::string_view line) {
  std::vector<std::string> result;
  line.remove_prefix(1);
  while (!line.empty()) {
    const std::size_t bar = std::min(line.find('|'), line.size());
    result.emplace_back(trimmed(line.substr(0, bar)));
    line.remove_prefix(std::min(bar + 1, line.size()));
  }
  return result;
}

// "- Publisher: AMD" fills the member of that name.
bool take_head(WikiPage& page, std::string_view line) {
  const std::pair<std::string_view, std::string*> heads[] = {{"- Publisher: ", &page.publisher},
                                                             {"- Version: ", &page.version},
                                                             {"- Document: ", &page.document},
                                                             {"- Read: ", &page.read}};
  for (const auto& [prefix, member] : heads) {
    if (line.starts_with(prefix)) return *member = trimmed(line.substr(prefix.size())), true;
  }
  return false;
}

Result<std::map<std::string, std::string>> read_lock(const fs::path& directory) {
  std::map<std::string, std::string> lock;
  std::error_code missing;
  if (!fs::exists(directory / kLockFile, missing)) return lock;
  RIDGE_TRY(text, read_file(directory / kLockFile));
  for (const auto& [number, line] : lines(text)) {
    if (line.empty()) continue;
    if (line.size() < 67 || line.substr(64, 2) != "  ") {
      return Error{ErrorCode::kCorrupt, fmt::format("{}:{}: not \"<sha256>  <path>\"", kLockFile, number), {}};
    }
    lock[std::string(line.substr(66))] = line.substr(0, 64);
  }
  return lock;
}

}  // namespace

Result<WikiPage> parse_wiki_page(std::string path, std::string_view text) {
  WikiPage page;
  page.path = std::move(path);
  page.digest = sha256(text);
  std::string section;
  for (const auto& [number, line] : lines(text)) {
    if (line.starts_with("## ")) {
      section = trimmed(line.substr(3));
    } else if (line.starts_with("# ")) {
      page.title = trimmed(line.substr(2));
    } else if (line.starts_with("|") && !line.starts_with("|-") && !line.starts_with("| metric |")) {
      const std::vector<std::string> row = cells(line);
      if (row.size() < 4 || section.empty()) {
        return Error{
            ErrorCode::kCorrupt,
            fmt::format("{}:{}: a row needs a section and four cells: metric, value, unit, where", page.path, number),
            {}};
      }
      page.rows.push_back({number, section, row[0], row[1] + " " + row[2], row[3]});
    } else {
      take_head(page, line);
    }
  }
  for (const auto& [name, value] : {std::pair<const char*, const std::string&>{"title", page.title},
                                    {"publisher", page.publisher},
                                    {"version", page.version},
                                    {"document", page.document},
                                    {"date of reading", page.read}}) {
    if (value.empty()) return Error{ErrorCode::kCorrupt, fmt::format("{}: names no {}", page.path, name), {}};
  }
  return page;
}

Result<Wiki> Wiki::open(const fs::path& directory) {
  std::error_code missing;
  if (!fs::is_directory(directory, missing))
    return make_error(ErrorCode::kNotFound, "no wiki at {}", directory.string());
  Wiki wiki;
  RIDGE_TRY(lock, read_lock(directory));
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".md") continue;
    const std::string path = fs::relative(entry.path(), directory).generic_string();
    RIDGE_TRY(text, read_file(entry.path()));
    RIDGE_TRY(page, parse_wiki_page(path, text));
    const auto locked = lock.find(path);
    if (locked != lock.end()) page.locked_digest = locked->second;
    wiki.pages_.emplace(path, std::move(page));
  }
  for (const auto& [path, digest] : lock) {
    if (!wiki.pages_.contains(path)) wiki.deleted_.push_back(path);
  }
  return wiki;
}

Result<const WikiRow*> Wiki::resolve(std::string_view source, std::string_view metric) const {
  const std::size_t colon = source.find(":");
  const std::string path(source.substr(0, colon));
  const auto found = pages_.find(path);
  if (found == pages_.end()) return make_error(ErrorCode::kNotFound, "no page {} in the wiki", path);
  if (colon == std::string_view::npos || colon + 1 == source.size()) {
    return invalid("\"{}\" names no line or section of the page", source);
  }
  const std::string_view place = source.substr(colon + 1);
  int line = 0;
  const bool by_line =
      std::from_chars(place.data(), place.data() + place.size(), line).ptr == place.data() + place.size();
  for (const WikiRow& row : found->second.rows) {
    if (row.metric == metric && (by_line ? row.line == line : row.section == place)) return &row;
  }
  return make_error(ErrorCode::kNotFound, "{} states no {} in {} \"{}\"", path, metric, by_line ? "line" : "section",
                    place);
}

std::string Wiki::lock() const {
  std::string text;
  for (const auto& [path, page] : pages_) text += page.digest + "  " + path + "\n";
  return text;
}

}  // namespace ridge::hardware
