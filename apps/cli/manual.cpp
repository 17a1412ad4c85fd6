#include "manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "layout.h"
#include "suggest.h"

namespace ridge::cli {
namespace {

using record::CommandEntry;
using record::CommandOption;

constexpr std::size_t kDefinitionWidth = 30;  // of flags and names, where their explanation begins beside them

std::string upper(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string argument_text(const record::CommandArgument& argument) {
  const std::string name = upper(argument.name) + (argument.repeatable ? "..." : "");
  return argument.required ? name : "[" + name + "]";
}

std::string flags_text(const CommandOption& option) {
  return fmt::format("{}{}", fmt::join(option.flags, ", "), option.value.empty() ? "" : " " + option.value);
}

// Explanations beside their terms; a long term has a line of its own.
class Screen {
 public:
  Screen(std::size_t width, bool color) : width_(std::max<std::size_t>(width, 40)), color_(color) {}

  void heading(const std::string& title) { text_ += color_ ? "\n\033[1m" + title + "\033[0m\n" : "\n" + title + "\n"; }
  void paragraph(const std::string& text, std::size_t indent = 0) {
    text_ += std::string(indent, ' ') + wrapped(text, width_ - indent, indent) + "\n";
  }
  void definition(const std::string& term, const std::string& meaning, std::size_t column = kDefinitionWidth) {
    const std::size_t beside = width_ < 2 * column ? 8 : column;
    const std::string body = wrapped(meaning, width_ - beside, beside);
    if (term.size() + 4 > beside) {
      text_ += fmt::format("  {}\n{}{}\n", term, std::string(beside, ' '), body);
    } else {
      text_ += fmt::format("  {:<{}}{}\n", term, beside - 2, body);
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::size_t width_;
  bool color_;
  std::string text_;
};

std::string with_default(const CommandOption& option) {
  const bool said = option.default_value.empty() || option.help.find("default") != std::string::npos;
  return said ? option.help : fmt::format("{} (default: {})", option.help, option.default_value);
}

void list_children(const Manual& manual, const CommandEntry& entry, Screen& screen) {
  const auto children = manual.children(entry);
  std::size_t column = 0;
  for (const CommandEntry* child : children) column = std::max(column, child->path.back().size() + 4);
  std::string heading;
  for (const CommandEntry* child : children) {
    if (child == children.front() || child->heading != heading) {
      heading = child->heading;
      screen.heading(heading.empty() ? "Commands" : heading);
    }
    screen.definition(child->path.back(), child->summary, column);
  }
}

// A group without examples of its own shows those of its commands.
std::vector<record::CommandExample> examples_of(const Manual& manual, const CommandEntry& entry) {
  std::vector<record::CommandExample> examples = entry.examples;
  if (!examples.empty()) return examples;
  for (const CommandEntry* child : manual.children(entry)) {
    if (!child->examples.empty() && examples.size() < 4) examples.push_back(child->examples.front());
  }
  return examples;
}

}  // namespace

CommandEntry& Manual::add(std::vector<std::string> path, const std::string& summary) {
  CommandEntry& entry = entries_.emplace_back();
  entry.path = std::move(path);
  entry.summary = summary;
  return entry;
}

std::vector<const CommandEntry*> Manual::children(const CommandEntry& of) const {
  std::vector<const CommandEntry*> found;
  for (const CommandEntry& entry : entries_) {
    if (entry.path.size() == of.path.size() + 1 && std::equal(of.path.begin(), of.path.end(), entry.path.begin()))
      found.push_back(&entry);
  }
  return found;
}

std::vector<std::string> Manual::child_names(const CommandEntry& of) const {
  std::vector<std::string> names;
  for (const CommandEntry* child : children(of)) names.push_back(child->path.back());
  return names;
}

Result<const CommandEntry*> Manual::find(const std::vector<std::string>& words) const {
  const CommandEntry* at = &root();
  for (const std::string& word : words) {
    const CommandEntry* next = nullptr;
    for (const CommandEntry* child : children(*at)) {
      if (child->path.back() == word) next = child;
    }
    if (next == nullptr) {
      const std::string close = did_you_mean(word, child_names(*at));
      return with_hint(make_error(ErrorCode::kNotFound, "{} has no command \"{}\"", name_of(*at), word),
                       close.empty() ? fmt::format("see: {} --help", name_of(*at)) : close);
    }
    at = next;
  }
  return at;
}

std::string Manual::name_of(const CommandEntry& entry) const {
  return fmt::format("{}{}{}", program_, entry.path.empty() ? "" : " ", fmt::join(entry.path, " "));
}

std::vector<const CommandOption*> Manual::options_of(const CommandEntry& entry) const {
  std::vector<const CommandOption*> options;
  for (std::size_t depth = entry.path.size() + 1; depth-- > 0;) {
    const std::vector<std::string> path(entry.path.begin(), entry.path.begin() + static_cast<std::ptrdiff_t>(depth));
    for (const CommandEntry& one : entries_) {
      if (one.path != path) continue;
      for (const CommandOption& option : one.options) options.push_back(&option);
    }
  }
  return options;
}

std::string long_flag(const CommandOption& option) {
  for (const std::string& flag : option.flags) {
    if (flag.starts_with("--")) return flag;
  }
  return option.flags.front();
}

std::string option_key(const CommandOption& option) {
  const std::string flag = long_flag(option);
  return flag.substr(flag.find_first_not_of('-'));
}

std::string usage_line(const Manual& manual, const CommandEntry& entry) {
  std::string line = manual.name_of(entry);
  if (entry.group) line += " COMMAND";
  for (const record::CommandArgument& argument : entry.arguments) line += " " + argument_text(argument);
  return line + " [OPTIONS]";
}

std::string json_sentence(const CommandEntry& entry) {
  if (entry.group) return "Each command says what --json prints.";
  if (entry.json.empty()) return "Not stated.";
  return entry.has_json ? "Prints " + entry.json + "." : "Refused: " + entry.json + ".";
}

std::string help_text(const Manual& manual, const CommandEntry& entry, std::size_t width, bool color) {
  Screen screen(width, color);
  screen.paragraph(entry.summary + (entry.summary.ends_with('.') ? "" : "."));
  screen.heading("Usage");
  screen.paragraph(usage_line(manual, entry), 2);
  list_children(manual, entry, screen);
  if (!entry.arguments.empty()) screen.heading("Arguments");
  for (const record::CommandArgument& argument : entry.arguments)
    screen.definition(argument_text(argument), argument.help);
  const bool root = entry.path.empty();
  if (!entry.options.empty() && !root) screen.heading("Options");
  const std::size_t own = entry.options.size();
  std::size_t index = 0;
  for (const CommandOption* option : manual.options_of(entry)) {
    if (index++ == (root ? 0 : own)) screen.heading("Options of every command");
    screen.definition(flags_text(*option), with_default(*option));
  }
  screen.definition("-h, --help", "Print this help");
  if (root) screen.definition("-V, --version", "Print the version");
  if (const auto examples = examples_of(manual, entry); !examples.empty()) {
    screen.heading("Examples");
    for (const record::CommandExample& example : examples) {
      screen.paragraph(example.line, 2);
      screen.paragraph(example.effect, 6);
    }
  }
  screen.heading("JSON (--json)");
  screen.paragraph(json_sentence(entry), 2);
  screen.heading("Exit codes");
  for (const record::CommandExit& exit : entry.exits)
    screen.definition(fmt::format("{:>3}", exit.code), exit.meaning, 8);
  return screen.take();
}

const std::vector<EnvironmentVariable>& environment_variables() {
  static const std::vector<EnvironmentVariable> variables = {
      {"NO_COLOR", "When it is set and not empty, output has no colours unless --color says otherwise."},
      {"RIDGE_CACHE_DIR", "Where built kernels, ceilings and tuned tables are kept, unless --cache-dir is given."},
      {"RIDGE_DATA_DIR", "Shipped data: candidates, hardware facts, tuned tables."},
      {"RIDGE_KNOWLEDGE_PATH",
       "Folders of your own knowledge pages, with colons between them, beside those that are shipped."},
      {"XDG_CONFIG_HOME", "Folder of ridge/config.toml, the user's defaults (ridge config); ~/.config by default."},
      {"XDG_CACHE_HOME", "Folder of ridge/, the cache, where RIDGE_CACHE_DIR is not set; ~/.cache by default."},
      {"COLUMNS", "Width of tables and help where the terminal does not tell its own."}};
  return variables;
}

}  // namespace ridge::cli
