#include "knowledge/pages.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/malformed.h"
#include "knowledge/tips.h"
#include "record/category.h"

namespace ridge::knowledge {
namespace {

namespace fs = std::filesystem;
using record::KnowledgeEntry;
using Words = std::vector<std::string>;

constexpr std::string_view kBottlenecks[] = {"compute", "memory", "latency", "resource", "launch"};
constexpr std::string_view kFence = "+++";
constexpr std::size_t kFewestForAny = 2;  // entries for any kernel, of every category

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// "Grouped GEMM, fp8" is grouped, gemm, fp8.
Words words_of(std::string_view text) {
  Words words(1);
  for (const char c : lowered(text)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

Error wrong(int line, std::string_view what) { return invalid("line {}: {}", line, what); }

template <std::size_t N>
bool among(const std::string& word, const std::string_view (&known)[N]) {
  return std::ranges::find(known, word) != std::end(known);
}

std::string trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t\r"), to = text.find_last_not_of(" \t\r");
  return from == std::string_view::npos ? std::string() : std::string(text.substr(from, to - from + 1));
}

Words list_in(std::string_view text) {
  Words words;
  std::istringstream parts{std::string(text)};
  for (std::string part; std::getline(parts, part, ',');) {
    if (std::string word = lowered(trimmed(part)); !word.empty()) words.push_back(std::move(word));
  }
  return words;
}

// The lists that a page's front matter and an entry's bullets both may state.
Words* list_named(KnowledgeEntry& entry, std::string_view name) {
  const std::string key = lowered(name);
  if (key == "operator") return &entry.operators;
  if (key == "device") return &entry.devices;
  if (key == "language") return &entry.languages;
  if (key == "bottleneck") return &entry.bottlenecks;
  return nullptr;
}

Result<KnowledgeEntry> front_matter(const std::string& text) {
  KnowledgeEntry page;
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    return wrong(static_cast<int>(line) + 1, toml_problem(text, line, error.description()));
  }
  for (const auto& [key, node] : table) {
    const int line = static_cast<int>(node.source().begin.line) + 1;
    const std::string name(key.str());
    if (name == "title" && node.is_string()) {
      page.title = **node.as_string();
      continue;
    }
    Words* list = list_named(page, name);
    if (list == nullptr || !node.is_array())
      return wrong(line,
                   fmt::format("{} is not title (a text), operator, device, language or bottleneck (lists)", name));
    for (const auto& item : *node.as_array()) {
      if (!item.is_string()) return wrong(line, name + " must be a list of texts");
      list->push_back(lowered(**item.as_string()));
    }
  }
  if (page.title.empty()) return wrong(1, "the page has no title");
  return page;
}

// One "- Key: text" of an entry.
Status take_bullet(KnowledgeEntry& entry, const std::string& key, const std::string& text, int line) {
  std::string* field = nullptr;
  if (key == "Category") field = &entry.category;
  if (key == "Applies") field = &entry.applies;
  if (key == "Mechanism") field = &entry.mechanism;
  if (key == "Signal") field = &entry.signal;
  if (text.empty()) return wrong(line, key + " says nothing");
  if (field != nullptr) {
    if (!field->empty()) return wrong(line, key + " is there twice");
    *field = text;
    return ok_status();
  }
  if (key == "Evidence") {
    entry.evidence.push_back(text);
    return ok_status();
  }
  Words* list = list_named(entry, key);
  if (list == nullptr)
    return wrong(line,
                 fmt::format("\"{}\" is not Category, Operator, Device, Language, Bottleneck, Applies, Mechanism, "
                             "Signal or Evidence",
                             key));
  *list = list_in(text);
  return ok_status();
}

Status check_evidence(const std::string& text) {
  const bool linked = text.find("](") != std::string::npos;
  const std::size_t open = text.find('"'), close = text.find('"', open + 1);
  const bool cited = open != std::string::npos && close > open + 1 && text.find(", ", close) != std::string::npos;
  if (text.starts_with("measured ")) {
    return linked ? ok_status() : Status(invalid("\"measured\" links to no file of results"));
  }
  if (text.starts_with("documented ")) {
    return cited ? ok_status() : Status(invalid("\"documented\" names no \"title of a document\", and then a section"));
  }
  if (text.starts_with("untested")) return ok_status();
  return invalid("evidence begins with measured, documented or untested, not \"{}\"", text.substr(0, 20));
}

Status check_entry(const KnowledgeEntry& entry) {
  for (const auto& [name, text] : {std::pair("Category", &entry.category), std::pair("Applies", &entry.applies),
                                   std::pair("Mechanism", &entry.mechanism), std::pair("Signal", &entry.signal)}) {
    if (text->empty()) return invalid("\"{}\" has no {}", entry.title, name);
  }
  if (!among(entry.category, record::kCategories)) {
    return invalid("\"{}\": category {} is not {}", entry.title, entry.category, fmt::join(record::kCategories, ", "));
  }
  if (entry.bottlenecks.empty()) return invalid("\"{}\" has no Bottleneck, and neither has the page", entry.title);
  for (const std::string& one : entry.bottlenecks) {
    if (!among(one, kBottlenecks))
      return invalid("\"{}\": bottleneck {} is not {}", entry.title, one, fmt::join(kBottlenecks, ", "));
  }
  if (entry.evidence.empty()) return invalid("\"{}\" has no Evidence", entry.title);
  for (const std::string& one : entry.evidence) {
    if (const Status sound = check_evidence(one); !sound) return in_context("\"" + entry.title + "\"", sound.error());
  }
  return ok_status();
}

// Reads a page line by line: the bullet at hand goes on until another line than a continuation comes.
class PageReader {
 public:
  PageReader(KnowledgeEntry page, std::string_view name) : page_(std::move(page)), name_(name) {}

  Status line(const std::string& text, int number) {
    if (text.starts_with("  ") && !key_.empty()) {
      value_ += " " + trimmed(text);
      return ok_status();
    }
    RIDGE_CHECK_OK(end_bullet());
    if (text.starts_with("## ")) {
      RIDGE_CHECK_OK(end_entry());
      begin_entry(trimmed(text.substr(3)), number);
    } else if (text.starts_with("#")) {
      return wrong(number, "headings of a page are \"## \": the title stands in the front matter");
    } else if (entry_ && text.starts_with("- ")) {
      const std::size_t colon = text.find(": ");
      if (colon == std::string::npos) return wrong(number, "a bullet of an entry is \"- Key: text\"");
      key_ = text.substr(2, colon - 2);
      value_ = trimmed(text.substr(colon + 2));
      bullet_line_ = number;
    } else if (entry_ && !trimmed(text).empty()) {
      return wrong(number, "an entry holds bullets only; what is more than one line long goes on behind two blanks");
    }
    return ok_status();
  }

  Result<std::vector<KnowledgeEntry>> finish() {
    RIDGE_CHECK_OK(end_bullet());
    RIDGE_CHECK_OK(end_entry());
    if (entries_.empty()) return invalid("the page has no entry (\"## Title\")");
    return std::move(entries_);
  }

 private:
  void begin_entry(std::string title, int number) {
    entry_ = page_;
    entry_->id = fmt::format("{}#{}", name_, fmt::join(words_of(title), "-"));
    entry_->title = std::move(title);
    entry_line_ = number;
  }
  Status end_bullet() {
    if (key_.empty()) return ok_status();
    const std::string key = std::exchange(key_, {});
    return take_bullet(*entry_, key, value_, bullet_line_);
  }
  Status end_entry() {
    if (!entry_) return ok_status();
    if (const Status sound = check_entry(*entry_); !sound) return wrong(entry_line_, sound.error().message);
    entries_.push_back(std::move(*entry_));
    entry_.reset();
    return ok_status();
  }

  KnowledgeEntry page_;
  std::string name_;
  std::optional<KnowledgeEntry> entry_;
  std::vector<KnowledgeEntry> entries_;
  std::string key_, value_;
  int entry_line_ = 0, bullet_line_ = 0;
};

struct PageFile {
  std::string name;  // "ops/gemm"
  fs::path path;
};
Result<std::vector<PageFile>> page_files(const fs::path& directory) {
  std::error_code failed;
  std::vector<PageFile> files;
  for (const auto& found : fs::recursive_directory_iterator(directory, failed)) {
    if (found.path().extension() != ".md" || found.path().filename() == "README.md") continue;
    files.push_back(
        {fs::path(found.path()).replace_extension().lexically_relative(directory).generic_string(), found.path()});
  }
  if (failed || files.empty()) {
    return with_hint(make_error(ErrorCode::kNotFound, "there are no knowledge pages in {}", directory.string()),
                     "they are shipped with ridge: RIDGE_DATA_DIR names another folder than its data; "
                     "RIDGE_KNOWLEDGE_PATH names folders of pages beside them");
  }
  std::ranges::sort(files, {}, &PageFile::name);
  return files;
}

// The pages of all folders by name; the last of a name counts.
Result<std::vector<PageFile>> page_files(const fs::path& directory, std::span<const fs::path> own) {
  std::map<std::string, fs::path> by_name;
  const auto add = [&](const fs::path& folder) -> Status {
    RIDGE_TRY(files, page_files(folder));
    for (PageFile& file : files) by_name[file.name] = std::move(file.path);
    return ok_status();
  };
  RIDGE_CHECK_OK(add(directory));
  for (const fs::path& folder : own) RIDGE_CHECK_OK(add(folder));
  std::vector<PageFile> all;
  for (const auto& [name, path] : by_name) all.push_back({name, path});
  return all;
}

// Targets of "[text](target)" that are no addresses.
Words links_in(std::string_view text) {
  Words links;
  for (std::size_t at = text.find("]("); at != std::string_view::npos; at = text.find("](", at + 1)) {
    const std::string target(text.substr(at + 2, text.find(')', at) - at - 2));
    if (target.find("://") == std::string::npos) links.push_back(target.substr(0, target.find('#')));
  }
  return links;
}

// A link out of the data folder is looked at where there is a source tree around it: it is not installed with the data.
bool is_dangling(const fs::path& page, const std::string& link, const fs::path& directory) {
  std::error_code ignored;
  const fs::path target = (page.parent_path() / link).lexically_normal();
  const fs::path tree = (directory / ".." / "..").lexically_normal();
  if (!fs::exists(tree / "CMakeLists.txt", ignored)) return false;
  return !fs::exists(target, ignored);
}

int line_in(const std::string& message) { return message.starts_with("line ") ? std::atoi(message.c_str() + 5) : 0; }

// "sm_90" fits "sm_90", "blackwell" fits "blackwell-ultra".
bool fits(const std::string& wanted, const std::string& given) {
  return wanted == given || given.starts_with(wanted + "-");
}
bool overlap(const Words& wanted, const Words& given) {
  return std::ranges::any_of(wanted, [&](const std::string& one) {
    return std::ranges::any_of(given, [&](const std::string& other) { return fits(one, lowered(other)); });
  });
}
bool holds(const Words& wanted, const Words& given) {
  return wanted.empty() || given.empty() || overlap(wanted, given);
}

bool holds_for(const KnowledgeEntry& entry, const Route& route) {
  return holds(entry.operators, words_of(route.op)) && holds(entry.devices, route.devices) &&
         holds(entry.languages, route.languages);
}

int rank_of(const KnowledgeEntry& entry, const Route& route) {
  const bool binds = std::ranges::find(entry.bottlenecks, route.bottleneck) != entry.bottlenecks.end();
  return (binds ? 8 : 0) + (entry.operators.empty() ? 0 : 4) + (entry.devices.empty() ? 0 : 2) +
         (entry.languages.empty() ? 0 : 1);
}

// Whether every word stands in `title` or `text`; what stands in the title counts more.
std::optional<std::int64_t> score_of(const Words& words, std::string_view title, std::string_view text) {
  std::int64_t score = 0;
  for (const std::string& word : words) {
    const std::string wanted = lowered(word);
    const bool named = lowered(title).find(wanted) != std::string::npos;
    if (!named && lowered(text).find(wanted) == std::string::npos) return std::nullopt;
    score += named ? 20 : 5;
  }
  return score;
}

// "bottleneck memory" in the context of a tip that a campaign wrote.
bool tip_is_about(const std::string& tip, const std::string& bottleneck) {
  return bottleneck.empty() || lowered(tip).find("bottleneck " + bottleneck) != std::string::npos;
}

// Whether <gpu>/<op>/<backend> of a tips file is what the route asks about.
bool path_fits(const fs::path& relative, const Route& route) {
  auto part = relative.begin();
  const std::string gpu = part->string(), op = (++part)->string(), backend = (++part)->string();
  const Words asked = words_of(route.op), found = words_of(op);
  const bool of_operator =
      asked.empty() || std::ranges::any_of(asked, [&](const std::string& word) { return overlap({word}, found); });
  const bool of_device = route.devices.empty() || std::ranges::any_of(route.devices, [&](const std::string& one) {
                           return lowered(gpu).find(lowered(one)) != std::string::npos;
                         });
  return of_operator && of_device && (route.languages.empty() || overlap(route.languages, {backend}));
}

Status search_tips(const fs::path& experience, const Words& words, const Route& route,
                   std::vector<record::KnowledgeHit>& hits) {
  std::error_code none;
  if (!fs::is_directory(experience, none)) return ok_status();
  std::vector<fs::path> files;
  for (const auto& found : fs::recursive_directory_iterator(experience, none)) {
    const fs::path relative = found.path().lexically_relative(experience);
    const bool placed = std::distance(relative.begin(), relative.end()) == 4;
    if (placed && relative.filename() == "tips.md" && path_fits(relative, route)) files.push_back(found.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    RIDGE_TRY(tips, read_tips(file));
    for (const std::string& tip : tips.entries) {
      const std::string title = tip.substr(0, tip.find('\n'));
      const std::optional<std::int64_t> score = score_of(words, title, tip);
      if (!score || !tip_is_about(tip, route.bottleneck) || !hygiene_problem(tip).empty()) continue;
      const std::size_t from = std::min(title.find_first_not_of("# "), title.size());  // a heading may have no text
      hits.push_back({"tip", file.string(), title.substr(from), tip, *score});
    }
  }
  return ok_status();
}

}  // namespace

Result<std::vector<KnowledgeEntry>> parse_page(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  std::string line, front;
  int number = 1;
  if (!std::getline(lines, line) || trimmed(line) != kFence)
    return wrong(1, "a page begins with +++, its front matter");
  bool closed = false;
  while (!closed && std::getline(lines, line)) {
    ++number;
    closed = trimmed(line) == kFence;
    if (!closed) front += line + "\n";
  }
  if (!closed) return wrong(number, "the front matter does not end with +++");
  RIDGE_TRY(page, front_matter(front));
  PageReader reader(std::move(page), name);
  while (std::getline(lines, line)) RIDGE_CHECK_OK(reader.line(line, ++number));
  return reader.finish();
}

Result<Pages> read_pages(const fs::path& directory, std::span<const fs::path> own) {
  RIDGE_TRY(files, page_files(directory, own));
  Pages pages;
  std::string all;
  for (const PageFile& file : files) {
    RIDGE_TRY(text, read_file(file.path));
    Result<std::vector<KnowledgeEntry>> entries = parse_page(text, file.name);
    if (!entries) return in_context(file.path.string(), entries.error());
    std::ranges::move(*entries, std::back_inserter(pages.entries));
    all += file.name + "\n" + text;
  }
  pages.digest = sha256(all);
  return pages;
}

std::vector<PageProblem> lint_pages(const fs::path& directory, std::span<const fs::path> own) {
  std::vector<PageProblem> problems;
  const Result<std::vector<PageFile>> files = page_files(directory, own);
  if (!files) return {{directory.string(), 0, files.error().text()}};
  std::set<std::string> ids;
  std::map<std::string, std::size_t> for_any;
  for (const PageFile& file : *files) {
    const auto problem = [&](int line, std::string message) {
      problems.push_back({file.path.string(), line, std::move(message)});
    };
    const Result<std::string> text = read_file(file.path);
    const auto entries = text ? parse_page(*text, file.name) : Result<std::vector<KnowledgeEntry>>(text.error());
    if (!entries) {
      problem(line_in(entries.error().message), entries.error().message);
      continue;
    }
    for (const std::string& link : links_in(*text)) {
      if (is_dangling(file.path, link, directory)) problem(0, "there is no " + link);
    }
    for (const KnowledgeEntry& entry : *entries) {
      if (!ids.insert(entry.id).second) problem(0, "\"" + entry.title + "\" is there twice");
      if (entry.operators.empty() && entry.devices.empty() && entry.languages.empty()) ++for_any[entry.category];
    }
  }
  for (const std::string_view category : record::kCategories) {
    if (problems.empty() && for_any[std::string(category)] < kFewestForAny)
      problems.push_back({directory.string(), 0,
                          fmt::format("{} entries of category {} hold for any kernel, {} are "
                                      "needed",
                                      for_any[std::string(category)], category, kFewestForAny)});
  }
  return problems;
}

std::vector<KnowledgeEntry> routed(std::span<const KnowledgeEntry> entries, const Route& route) {
  std::vector<KnowledgeEntry> found;
  for (const KnowledgeEntry& entry : entries) {
    if (holds_for(entry, route)) found.push_back(entry);
  }
  std::ranges::stable_sort(found, std::greater<>(), [&](const KnowledgeEntry& one) { return rank_of(one, route); });
  return found;
}

Result<std::vector<record::KnowledgeHit>> search(std::span<const KnowledgeEntry> entries, const fs::path& experience,
                                                 const std::vector<std::string>& words, const Route& route) {
  std::vector<record::KnowledgeHit> hits;
  for (const KnowledgeEntry& entry : routed(entries, route)) {
    if (!route.bottleneck.empty() && !overlap(entry.bottlenecks, {route.bottleneck})) continue;
    const std::string text = to_text(entry);
    if (const auto score = score_of(words, entry.title + " " + entry.id, text))
      hits.push_back({"page", entry.id, entry.title, text, *score + rank_of(entry, route)});
  }
  RIDGE_CHECK_OK(search_tips(experience, words, route, hits));
  std::ranges::stable_sort(hits, std::greater<>(), &record::KnowledgeHit::score);
  return hits;
}

std::string to_text(const KnowledgeEntry& entry) {
  std::string text = fmt::format("{} ({}; {})\n", entry.title, entry.category, fmt::join(entry.bottlenecks, ", "));
  text +=
      fmt::format("  applies    {}\n  mechanism  {}\n  signal     {}\n", entry.applies, entry.mechanism, entry.signal);
  for (const std::string& one : entry.evidence) text += fmt::format("  evidence   {}\n", one);
  for (const std::string& one : entry.tried) text += fmt::format("  tried      {}\n", one);
  return text;
}

}  // namespace ridge::knowledge
