#include "knowledge/tips.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/visible.h"

namespace ridge::knowledge {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFieldBytes = 500;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// Cut at line ends, semicolons, and full stops before a blank ("x.data_ptr" and "1.5" stay whole).
std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> sentences(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool stop = text[at] == '.' && (at + 1 == text.size() || text[at + 1] == ' ');
    if (text[at] == '\n' || text[at] == ';' || stop)
      sentences.emplace_back();
    else
      sentences.back() += text[at];
  }
  return sentences;
}

// Why one sentence, in small letters, must not be followed; empty: it may.
std::string praise_in(std::string_view sentence) {
  for (const std::string_view word :
       {"id(activation", "id(grad", "id(x", "data_ptr", "weakref", "lru_cache", "functools.cache", "ordereddict",
        "__hash__", "hash(x", "hash(activation", "hash(grad", "hash(tensor", "activation cache", "grad_out cache",
        "activation and grad_out", "identity cache"}) {
    if (sentence.find(word) != std::string_view::npos)
      return fmt::format("praises a cache keyed on tensor identity (\"{}\")", word);
  }
  if (holds_any(sentence, {"uniform only", "only uniform", "uniform loads only", "only for uniform"}))
    return "praises a gain for uniform loads only";
  return {};
}

Status check_tip(const NewTip& tip) {
  for (const std::string* field :
       {&tip.campaign, &tip.journal, &tip.context, &tip.signal, &tip.takeaway, &tip.applicability}) {
    if (field->empty()) {
      return invalid("tip of round {}: campaign, journal, context, signal, takeaway and applicability are all needed",
                     tip.round);
    }
  }
  const std::string problem = tip.accepted ? hygiene_problem(tip.takeaway) : std::string();
  return problem.empty() ? ok_status() : Status(invalid("tip of round {} {}", tip.round, problem));
}

std::string heading(const NewTip& tip) {
  return fmt::format("### {} round-{} — {}\n", tip.time, tip.round, tip.accepted ? "ACCEPTED" : "ROLLED BACK");
}

std::string identity(const NewTip& tip) {
  return fmt::format("<!-- {} round-{} {} -->\n", tip.campaign, tip.round, tip.journal);
}

std::string render(const NewTip& tip) {
  return fmt::format("\n{}{}- Context: {}\n- Signal: {}\n- Takeaway: {}\n- Applicability: {}\n", heading(tip),
                     identity(tip), tip.context, tip.signal, tip.takeaway, tip.applicability);
}

// Earlier versions wrote the identity without the journal: there the minute of the heading tells campaigns apart.
bool holds(std::string_view text, const NewTip& tip) {
  const std::string earlier = fmt::format("{}<!-- {} round-{} -->\n", heading(tip), tip.campaign, tip.round);
  return text.find(identity(tip)) != std::string_view::npos || text.find(earlier) != std::string_view::npos;
}

// The folder of a tips file to itself: campaigns that end at the same time would lose each other's tips. While it is
// held an unfinished file in it is one that a killed writer left behind.
class Turn {
 public:
  static Result<Turn> take(const fs::path& directory) {
    RIDGE_CHECK_OK(make_directories(directory));
    Turn turn(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (turn.fd_ < 0 || ::flock(turn.fd_, LOCK_EX) != 0) {
      return make_error(ErrorCode::kIo, "cannot lock {}", directory.string());
    }
    RIDGE_CHECK_OK(remove_unfinished_files(directory));
    return turn;
  }
  Turn(Turn&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Turn& operator=(Turn&&) = delete;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit Turn(int fd) : fd_(fd) {}
  int fd_;
};

bool is_tip_heading(std::string_view line) { return line.starts_with("## ") || line.starts_with("### "); }

}  // namespace

std::vector<std::string> parse_tips(std::string_view text) {
  std::vector<std::string> entries;
  std::istringstream lines{std::string(text)};
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_tip_heading(line)) {
      entries.emplace_back();
      inside = true;
    } else if (line.starts_with("# ")) {
      inside = false;
    }
    if (inside) entries.back() += line + "\n";
  }
  // A heading that only groups others says nothing itself.
  std::erase_if(entries, [](const std::string& entry) {
    const std::size_t body = entry.find('\n');
    return entry.find_first_not_of(" \t\r\n", body) == std::string::npos;
  });
  return entries;
}

Result<Tips> read_tips(const fs::path& path) {
  Result<std::string> text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return Tips{};
  if (!text) return text.error();
  return Tips{sha256(*text), parse_tips(*text)};
}

std::string hygiene_problem(std::string_view tip) {
  const std::string text = lower(tip);
  // A round that was rolled back warns as a whole; any other warning is for the sentence that it stands in.
  const std::string heading = text.substr(0, text.find('\n'));
  if (heading.starts_with('#') && holds_any(heading, {"rolled back", "rolled_back"})) return {};
  for (const std::string& sentence : sentences_of(text)) {
    if (holds_any(sentence, {"rolled back", "rolled_back", "do not", "don't", "never", "forbidden", "overfit"}))
      continue;
    if (std::string problem = praise_in(sentence); !problem.empty()) return problem;
  }
  // The bound of a weight cache may stand beside it.
  const bool weight_cache = holds_any(text, {"weight cache", "w1"});
  const bool warned = holds_any(text, {"do not", "don't", "never", "forbidden", "overfit", "rolled back"});
  return weight_cache && !warned && text.find('%') == std::string::npos ? "praises a weight cache without its bound"
                                                                        : std::string();
}

Result<std::vector<std::string>> quarantine(const fs::path& path, const std::vector<std::string>& entries) {
  if (entries.empty()) return entries;
  RIDGE_TRY(turn, Turn::take(path.parent_path()));
  const fs::path aside = path.parent_path() / "tips.quarantine.md";
  Result<std::string> old = read_file(aside);
  if (!old && old.error().code != ErrorCode::kNotFound) return old.error();
  std::string text = old ? *old : std::string("# Tips that must not be followed\n");
  const std::size_t before = text.size();
  std::vector<std::string> kept;
  for (const std::string& entry : entries) {
    const std::string problem = hygiene_problem(entry);
    if (problem.empty()) {
      kept.push_back(entry);
    } else if (text.find(entry) == std::string::npos) {
      text += fmt::format("\n<!-- {} -->\n{}", problem, entry);
    }
  }
  if (text.size() != before) RIDGE_CHECK_OK(write_file_durably(aside, text));
  return kept;
}

NewTip on_one_line(NewTip tip) {
  for (std::string* const text :
       {&tip.time, &tip.campaign, &tip.journal, &tip.context, &tip.signal, &tip.takeaway, &tip.applicability}) {
    // Characters that become blanks do not hide a comment: what is left is looked through.
    std::string line = short_line(*text, text->size() * 3);
    for (std::size_t at = line.find("<!--"); at != std::string::npos; at = line.find("<!--", at))
      line.insert(at + 1, " ");
    *text = short_line(line, kFieldBytes);
  }
  return tip;
}

Status append_tips(const fs::path& path, const std::vector<NewTip>& tips) {
  if (tips.empty()) return ok_status();
  RIDGE_TRY(turn, Turn::take(path.parent_path()));
  Result<std::string> old = read_file(path);
  if (!old && old.error().code != ErrorCode::kNotFound) return old.error();
  std::string text = old ? *old : std::string("# Historical Experience Tips\n");
  const std::size_t before = text.size();
  for (const NewTip& one : tips) {
    const NewTip tip = on_one_line(one);
    RIDGE_CHECK_OK(check_tip(tip));
    if (!holds(text, tip)) text += render(tip);
  }
  return text.size() == before ? ok_status() : write_file_durably(path, text);
}

Result<fs::path> tips_path(const fs::path& experience, std::string_view gpu, std::string_view op,
                           std::string_view backend) {
  for (const std::string_view part : {gpu, op, backend}) {
    if (part.empty() || part == "." || part == ".." || part.find('/') != std::string_view::npos) {
      return invalid("\"{}\" cannot be part of the path of a tips file", part);
    }
  }
  return experience / gpu / op / lower(backend) / "tips.md";
}

}  // namespace ridge::knowledge
