#include "man_page.h"

#include <fmt/format.h>

namespace ridge::cli {
namespace {

using record::CommandEntry;

// Text as roff prints it: dashes stay dashes, a line never begins with a request.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  const bool request = !escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'');
  return request ? "\\&" + escaped : escaped;
}

std::string page_name(const Manual& manual, const CommandEntry& entry) {
  std::string name = manual.program();
  for (const std::string& word : entry.path) name += "-" + word;
  return name;
}

void add_definition(std::string& page, const std::string& term, const std::string& meaning) {
  page += fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(meaning));
}

void add_options(std::string& page, const std::vector<record::CommandOption>& options) {
  for (const record::CommandOption& option : options) {
    const std::string defaults = option.default_value.empty() || option.help.find("default") != std::string::npos
                                     ? std::string()
                                     : fmt::format(" (default: {})", option.default_value);
    page += fmt::format(".TP\n.B {}{}\n{}\n", roff(fmt::format("{}", fmt::join(option.flags, ", "))),
                        option.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(option.value)),
                        roff(option.help + defaults + "."));
  }
}

void add_commands(std::string& page, const Manual& manual, const CommandEntry& entry) {
  std::string heading;
  for (const CommandEntry* child : manual.children(entry)) {
    if (child->heading != heading) page += fmt::format(".SS {}\n", roff(heading = child->heading));
    add_definition(page, child->path.back(), child->summary + ".");
  }
}

void add_see_also(std::string& page, const Manual& manual, const CommandEntry& entry) {
  std::string text;
  const auto add = [&](const CommandEntry& other) {
    text += fmt::format("{}.BR {} (1)", text.empty() ? "" : ",\n", roff(page_name(manual, other)));
  };
  if (!entry.path.empty()) {
    const std::vector<std::string> above(entry.path.begin(), entry.path.end() - 1);
    if (const auto parent = manual.find(above)) add(**parent);
  }
  for (const CommandEntry* child : manual.children(entry)) add(*child);
  page += ".SH SEE ALSO\n" + text + "\n";
}

}  // namespace

std::string man_page_file(const Manual& manual, const CommandEntry& entry) { return page_name(manual, entry) + ".1"; }

std::string man_page(const Manual& manual, const CommandEntry& entry) {
  std::string page = fmt::format(".TH {} 1 \"\" \"{} {}\" \"Ridgeline\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n",
                                 roff(page_name(manual, entry)), manual.program(), roff(manual.version()),
                                 roff(page_name(manual, entry)), roff(entry.summary), roff(usage_line(manual, entry)));
  if (entry.group) page += ".SH COMMANDS\n";
  add_commands(page, manual, entry);
  if (!entry.arguments.empty()) page += ".SH ARGUMENTS\n";
  for (const record::CommandArgument& argument : entry.arguments)
    add_definition(page, argument.name, argument.help + (argument.required ? "." : " (optional)."));
  if (!entry.options.empty()) page += ".SH OPTIONS\n";
  add_options(page, entry.options);
  if (!entry.path.empty()) {
    page += ".SH OPTIONS OF EVERY COMMAND\n";
    add_options(page, manual.root().options);
  }
  if (!entry.examples.empty()) page += ".SH EXAMPLES\n";
  for (const record::CommandExample& example : entry.examples)
    page += fmt::format(".PP\n.nf\n{}\n.fi\n.RS\n{}\n.RE\n", roff(example.line), roff(example.effect));
  page += fmt::format(".SH JSON OUTPUT\n{}\n.SH EXIT STATUS\n", roff(json_sentence(entry)));
  for (const record::CommandExit& exit : entry.exits) add_definition(page, std::to_string(exit.code), exit.meaning);
  page += ".SH ENVIRONMENT\n";
  for (const EnvironmentVariable& one : environment_variables()) add_definition(page, one.name, one.meaning);
  add_see_also(page, manual, entry);
  return page;
}

}  // namespace ridge::cli
