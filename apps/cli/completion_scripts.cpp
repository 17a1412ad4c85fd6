#include "completion_scripts.h"

#include <fmt/format.h>

#include <map>

namespace ridge::cli {
namespace {

using record::CommandEntry;
using record::CommandOption;

// What stands for a value: words to choose from, "files", "folders", a list that `ridge completion --words` prints, or
// nothing that could be offered.
struct Values {
  enum class Kind { kNothing, kChoices, kFiles, kFolders, kList } kind = Kind::kNothing;
  std::string words;
};

Values values_of(std::string_view takes) {
  if (takes == "FILE") return {Values::Kind::kFiles, {}};
  if (takes == "DIR") return {Values::Kind::kFolders, {}};
  if (takes == "OPERATOR") return {Values::Kind::kList, "operators"};
  if (takes == "PRODUCT") return {Values::Kind::kList, "products"};
  if (takes.find('|') == std::string_view::npos) return {};
  std::string words(takes);
  for (char& c : words) c = c == '|' ? ' ' : c;
  return {Values::Kind::kChoices, words};
}

Values values_of(const Manual& manual, const CommandEntry& entry, const record::CommandArgument& argument) {
  if (entry.path == std::vector<std::string>{"help"})
    return {Values::Kind::kChoices, fmt::format("{}", fmt::join(manual.child_names(manual.root()), " "))};
  static const std::map<std::string, Values> kByName = {{"operator", {Values::Kind::kList, "operators"}},
                                                        {"product", {Values::Kind::kList, "products"}},
                                                        {"other", {Values::Kind::kList, "products"}},
                                                        {"directory", {Values::Kind::kFolders, {}}},
                                                        {"directories", {Values::Kind::kFolders, {}}},
                                                        {"file", {Values::Kind::kFiles, {}}},
                                                        {"files", {Values::Kind::kFiles, {}}},
                                                        {"pack", {Values::Kind::kFiles, {}}},
                                                        {"shell", {Values::Kind::kChoices, "bash zsh fish"}}};
  const auto found = kByName.find(argument.name);
  return found == kByName.end() ? Values{} : found->second;
}

// The options that belong to the entry itself; --help and, of the program, --version are the parser's.
std::vector<std::pair<std::string, std::string>> flags_of(const Manual& manual, const CommandEntry& entry) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const CommandOption* option : manual.options_of(entry)) {
    for (const std::string& flag : option->flags) flags.emplace_back(flag, option->help);
  }
  flags.emplace_back("--help", "Print the help of this command");
  if (entry.path.empty()) flags.emplace_back("--version", "Print the version");
  return flags;
}

// Patterns "ridge bench --mode" of a case statement; an option of the program is one of every command.
std::string pattern_of(const Manual& manual, const CommandEntry& entry, const CommandOption& option,
                       const char* quote) {
  std::string pattern;
  for (const std::string& flag : option.flags) {
    const std::string at = entry.path.empty() ? fmt::format("*{0} {1}{0}", quote, flag)
                                              : fmt::format("{0}{1} {2}{0}", quote, manual.name_of(entry), flag);
    pattern += (pattern.empty() ? "" : "|") + at;
  }
  return pattern;
}

// Of every option that takes a value; those of the program itself have their own pattern.
std::string value_patterns(const Manual& manual, bool of_program) {
  std::string patterns;
  for (const CommandEntry& entry : manual.entries()) {
    if (entry.path.empty() && !of_program) continue;
    for (const CommandOption& option : entry.options) {
      if (!option.value.empty()) patterns += (patterns.empty() ? "" : "|") + pattern_of(manual, entry, option, "\"");
    }
  }
  return patterns;
}

std::string command_patterns(const Manual& manual) {
  std::string patterns;
  for (const CommandEntry& entry : manual.entries()) {
    if (!entry.path.empty()) patterns += fmt::format("{}\"{}\"", patterns.empty() ? "" : "|", manual.name_of(entry));
  }
  return patterns;
}

std::string bash_values(const Values& values) {
  switch (values.kind) {
    case Values::Kind::kFiles: return "_ridge_offer -f";
    case Values::Kind::kFolders: return "_ridge_offer -d";
    case Values::Kind::kChoices: return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$current\"))", values.words);
    case Values::Kind::kList:
      return fmt::format("_ridge_offer -W \"$(\"${{COMP_WORDS[0]}}\" completion --words {} 2>/dev/null)\"",
                         values.words);
    case Values::Kind::kNothing: return ":";
  }
  return ":";
}

std::string zsh_values(const Values& values) {
  switch (values.kind) {
    case Values::Kind::kFiles: return "_files";
    case Values::Kind::kFolders: return "_files -/";
    case Values::Kind::kChoices: return "compadd -- " + values.words;
    case Values::Kind::kList:
      return fmt::format("compadd -- ${{(f)\"$($words[1] completion --words {} 2>/dev/null)\"}}", values.words);
    case Values::Kind::kNothing: return "return 1";
  }
  return "return 1";
}

// In single quotes of a shell.
std::string single_quoted(std::string_view text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return safe + "'";
}

// For _describe, where a colon separates.
std::string zsh_described(const std::string& word, const std::string& help) {
  std::string text;
  for (const char c : word) text += c == ':' ? std::string("\\:") : std::string(1, c);
  return single_quoted(text + ":" + help);
}

// One line per option that takes a value: what to offer after it.
template <class Print>
std::string option_cases(const Manual& manual, Print print, const char* open) {
  std::string cases;
  for (const CommandEntry& entry : manual.entries()) {
    for (const CommandOption& option : entry.options) {
      if (option.value.empty()) continue;
      cases += fmt::format("    {}{}) {}; return ;;\n", open, pattern_of(manual, entry, option, "\""),
                           print(values_of(option.value)));
    }
  }
  return cases;
}

}  // namespace

std::string bash_completion(const Manual& manual) {
  std::string places;
  for (const CommandEntry& entry : manual.entries()) {
    std::string flags;
    for (const auto& [flag, help] : flags_of(manual, entry)) flags += (flags.empty() ? "" : " ") + flag;
    places += fmt::format("    \"{}\")\n      if [[ $current == -* ]]; then {}\n", manual.name_of(entry),
                          bash_values({Values::Kind::kChoices, flags}));
    if (entry.group) {
      const std::string names = fmt::format("{}", fmt::join(manual.child_names(entry), " "));
      places += fmt::format("      else {}\n", bash_values({Values::Kind::kChoices, names}));
    }
    for (std::size_t i = 0; i < entry.arguments.size(); ++i) {
      const std::string test = entry.arguments[i].repeatable ? "-ge" : "-eq";
      places += fmt::format("      elif [[ $arguments {} {} ]]; then {}\n", test, i,
                            bash_values(values_of(manual, entry, entry.arguments[i])));
    }
    places += "      fi ;;\n";
  }
  return fmt::format(R"(# bash completion of {0} {1}; generated by `{0} completion bash`.
# Files, folders or the lines of a list; names with spaces are quoted.
_ridge_offer() {{
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen "$@" -- "$current"))
}}
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} at={0} arguments=0 skip= word i
  COMPREPLY=()
  # The command so far, and how many arguments it has been given.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    if [[ $skip ]]; then skip=; continue; fi
    case "$at $word" in
      {2}) skip=1; continue ;;
    esac
    [[ $word == -* ]] && continue
    case "$at $word" in
      {3}) at="$at $word" ;;
      *) arguments=$((arguments + 1)) ;;
    esac
  done
  case "$at $previous" in
{4}  esac
  case "$at" in
{5}  esac
}}
complete -F _{0} {0}
)",
                     manual.program(), manual.version(), value_patterns(manual, true), command_patterns(manual),
                     option_cases(manual, bash_values, ""), places);
}

std::string zsh_completion(const Manual& manual) {
  std::string places;
  for (const CommandEntry& entry : manual.entries()) {
    places +=
        fmt::format("    (\"{}\")\n      if [[ $current == -* ]]; then\n        offered=(", manual.name_of(entry));
    for (const auto& [flag, help] : flags_of(manual, entry)) places += "\n          " + zsh_described(flag, help);
    places += ")\n        _describe -o option offered\n";
    if (entry.group) {
      places += "      else\n        offered=(";
      for (const CommandEntry* child : manual.children(entry))
        places += "\n          " + zsh_described(child->path.back(), child->summary);
      places += ")\n        _describe command offered\n";
    }
    for (std::size_t i = 0; i < entry.arguments.size(); ++i) {
      places +=
          fmt::format("      elif (( arguments {} {} )); then {}\n", entry.arguments[i].repeatable ? ">=" : "==", i,
                      zsh_values(values_of(manual, entry, entry.arguments[i])));
    }
    places += "      fi ;;\n";
  }
  return fmt::format(R"(#compdef {0}
# zsh completion of {0} {1}; generated by `{0} completion zsh`.
_{0}() {{
  local current=$words[CURRENT] previous=$words[CURRENT-1] at={0} word skip=
  local -i arguments=0 i
  local -a offered
  # The command so far, and how many arguments it has been given.
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    if [[ -n $skip ]]; then skip=; continue; fi
    case "$at $word" in
      ({2}) skip=1; continue ;;
    esac
    [[ $word == -* ]] && continue
    case "$at $word" in
      ({3}) at="$at $word" ;;
      (*) arguments+=1 ;;
    esac
  done
  case "$at $previous" in
{4}  esac
  case "$at" in
{5}  esac
}}
if [[ $funcstack[1] == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     manual.program(), manual.version(), value_patterns(manual, true), command_patterns(manual),
                     option_cases(manual, zsh_values, "("), places);
}

namespace {

std::string fish_option(const CommandOption& option) {
  std::string line;
  for (const std::string& flag : option.flags) {
    const bool is_long = flag.starts_with("--");
    line += fmt::format(" {} {}", is_long ? "-l" : "-s", flag.substr(is_long ? 2 : 1));
  }
  const Values values = values_of(option.value);
  if (option.value.empty()) return line;
  switch (values.kind) {
    case Values::Kind::kFiles: return line + " -r -F";
    case Values::Kind::kFolders: return line + " -x -a '(__fish_complete_directories)'";
    case Values::Kind::kChoices: return fmt::format("{} -x -a '{}'", line, values.words);
    case Values::Kind::kList: return fmt::format("{} -x -a '(__{{}}_words {})'", line, values.words);
    case Values::Kind::kNothing: return line + " -x";
  }
  return line;
}

std::string fish_argument(const Values& values) {
  switch (values.kind) {
    case Values::Kind::kFiles: return " -F";
    case Values::Kind::kFolders: return " -a '(__fish_complete_directories)'";
    case Values::Kind::kChoices: return fmt::format(" -a '{}'", values.words);
    case Values::Kind::kList: return fmt::format(" -a '(__{{}}_words {})'", values.words);
    case Values::Kind::kNothing: return {};
  }
  return {};
}

// "{}" stands for the program's name.
std::string with_program(std::string line, const std::string& program) {
  const std::size_t at = line.find("{}");
  return at == std::string::npos ? line : line.replace(at, 2, program);
}

}  // namespace

std::string fish_completion(const Manual& manual) {
  const std::string& program = manual.program();
  std::string lines;
  for (const CommandEntry& entry : manual.entries()) {
    const std::string here = fmt::format("complete -c {} -n \"__{}_at '{}'\"", program, program, manual.name_of(entry));
    for (const CommandEntry* child : manual.children(entry))
      lines += fmt::format("{} -a {} -d {}\n", here, child->path.back(), single_quoted(child->summary));
    for (const CommandOption& option : entry.options) {
      lines += fmt::format("{}{} -d {}\n", entry.path.empty() ? "complete -c " + program : here,
                           with_program(fish_option(option), program), single_quoted(option.help));
    }
    if (entry.path.empty()) lines += here + " -s V -l version -d 'Print the version'\n";
    for (const record::CommandArgument& argument : entry.arguments) {
      const std::string offered = with_program(fish_argument(values_of(manual, entry, argument)), program);
      if (!offered.empty()) lines += fmt::format("{}{} -d {}\n", here, offered, single_quoted(argument.help));
      if (!argument.repeatable && !offered.empty()) break;
    }
  }
  std::string known = command_patterns(manual);
  for (char& c : known) c = c == '|' ? ' ' : c;
  std::string valued = value_patterns(manual, false);
  for (char& c : valued) c = c == '|' ? ' ' : c;
  std::string of_program;
  for (const CommandOption& option : manual.root().options) {
    for (const std::string& flag : option.flags) of_program += option.value.empty() ? "" : " " + flag;
  }
  return fmt::format(R"(# fish completion of {0} {1}; generated by `{0} completion fish`.
function __{0}_words
    set -l program (commandline -opc)[1]
    $program completion --words $argv[1] 2>/dev/null
end

# Whether the command that was typed so far is $argv[1].
function __{0}_at
    set -l at {0}
    set -l skip no
    for word in (commandline -opc)[2..-1]
        if test $skip = yes
            set skip no
        else if contains -- "$at $word" {3}; or contains -- "$word"{4}
            set skip yes
        else if contains -- "$at $word" {2}
            set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end

complete -c {0} -f
complete -c {0} -s h -l help -d 'Print the help of this command'
{5})",
                     program, manual.version(), known, valued, of_program, lines);
}

}  // namespace ridge::cli
