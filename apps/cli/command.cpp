#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "config_file.h"
#include "context.h"
#include "manual.h"
#include "say.h"
#include "suggest.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

using record::CommandEntry;

struct Meaning {
  int code;
  const char* words;
};
constexpr Meaning kMeanings[] = {{kSuccess, "done"},
                                 {kNo, "it ran, and the answer is no"},
                                 {kUsage, "a flag, name, shape or file that cannot be used"},
                                 {kUnavailable, "this machine or build cannot do it"},
                                 {kUnknown, "no source states the fact that was asked for"},
                                 {kSystem, "the operating system refused: disk full, permission"},
                                 {kFault, "a tool or this program failed"},
                                 {kHeld, "another process holds it, or its state does not allow it"},
                                 {kPaused, "a campaign is paused; the last line says how to go on"},
                                 {kInterrupted, "stopped by Ctrl-C or SIGTERM"}};

std::string meaning_of(int code) {
  for (const Meaning& one : kMeanings) {
    if (one.code == code) return one.words;
  }
  return "see the command's documentation";
}

void add_exit(CommandEntry& entry, const Exit& exit) {
  const auto at =
      std::find_if(entry.exits.begin(), entry.exits.end(), [&](const auto& e) { return e.code >= exit.code; });
  const std::string words = exit.meaning.empty() ? meaning_of(exit.code) : exit.meaning;
  if (at != entry.exits.end() && at->code == exit.code) {
    at->meaning = words;
  } else {
    entry.exits.insert(at, {exit.code, words});
  }
}

// How an option of the configuration file reaches the variable that its flag sets.
struct Binding {
  const CommandEntry* entry = nullptr;
  std::string key, environment;
  CLI::Option* parsed = nullptr;
};

std::string whole_number_or_why(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size();
  return good ? std::string() : fmt::format("\"{}\" is not a whole number", text);
}

std::string number_or_why(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  const bool good = !text.empty() && *end == '\0';
  return good ? std::string() : fmt::format("\"{}\" is not a number", text);
}

}  // namespace

struct Program {
  std::shared_ptr<Manual> manual;
  std::vector<Binding> bindings;
  std::map<const CLI::App*, CommandEntry*> entries;
  std::function<int()> run;
};

struct Command::State {
  CLI::App* app = nullptr;
  std::shared_ptr<Program> program;
  CommandEntry* entry = nullptr;
  std::string heading;
};

Command Command::subcommand(const std::string& name, const std::string& help) {
  Command made = inner_command(name, help);
  // A group such as `ridge campaign` needs one of its subcommands, and can only be misused by itself.
  state_->app->require_subcommand(1);
  state_->entry->group = state_->entry->exits_declared = true;
  return made;
}

Command Command::inner_command(const std::string& name, const std::string& help) {
  auto state = std::make_shared<State>();
  state->program = state_->program;
  state->app = state_->app->add_subcommand(name, help);
  state->app->fallthrough(true);
  std::vector<std::string> path = state_->entry->path;
  path.push_back(name);
  state->entry = &state_->program->manual->add(std::move(path), help);
  state->entry->heading = state_->heading;
  for (const int code : {kSuccess, kUsage, kFault}) add_exit(*state->entry, code);
  state->program->entries[state->app] = state->entry;
  return Command(std::move(state));
}

Command& Command::heading(const std::string& text) {
  state_->heading = text;
  return *this;
}

// `declare` hands the flags to the parser and gives its option.
Command& Command::add_option(const std::string& flags, const std::string& help, std::string takes, std::string value,
                             const std::function<void*(const std::string&)>& declare) {
  const std::size_t space = flags.find(' ');
  const std::string names = flags.substr(0, space);
  record::CommandOption option;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    option.flags.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  option.value = space == std::string::npos ? std::move(takes) : flags.substr(space + 1);
  option.help = help;
  option.default_value = std::move(value);
  auto* parsed = static_cast<CLI::Option*>(declare(names));
  option.repeatable = parsed->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll && !option.value.empty();
  state_->program->bindings.push_back({state_->entry, option_key(option), {}, parsed});
  state_->entry->options.push_back(std::move(option));
  return *this;
}

Command& Command::option(const std::string& flags, std::string& value, const std::string& help) {
  return add_option(flags, help, "TEXT", value,
                    [&](const std::string& names) { return state_->app->add_option(names, value, help)->take_last(); });
}
Command& Command::option(const std::string& flags, std::vector<std::string>& values, const std::string& help) {
  return add_option(flags, help, "TEXT", {}, [&](const std::string& names) {
    return state_->app->add_option(names, values, help)->expected(1)->take_all();
  });
}
Command& Command::option(const std::string& flags, std::int64_t& value, const std::string& help) {
  return add_option(flags, help, "N", std::to_string(value), [&](const std::string& names) {
    return state_->app->add_option(names, value, help)->check(whole_number_or_why)->take_last();
  });
}
Command& Command::option(const std::string& flags, std::optional<std::int64_t>& value, const std::string& help) {
  return add_option(flags, help, "N", {}, [&](const std::string& names) {
    return state_->app->add_option(names, value, help)->check(whole_number_or_why)->take_last();
  });
}
Command& Command::option(const std::string& flags, double& value, const std::string& help) {
  return add_option(flags, help, "X", fmt::format("{}", value), [&](const std::string& names) {
    return state_->app->add_option(names, value, help)->check(number_or_why)->take_last();
  });
}
Command& Command::flag(const std::string& flags, bool& value, const std::string& help) {
  return add_option(flags, help, {}, {},
                    [&](const std::string& names) { return state_->app->add_flag(names, value, help); });
}
Command& Command::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  state_->app->add_option(name, value, help)->required(required);
  state_->entry->arguments.push_back({name, help, required, false});
  return *this;
}
Command& Command::positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                             bool required) {
  state_->app->add_option(name, values, help)->required(required);
  state_->entry->arguments.push_back({name, help, required, true});
  return *this;
}
Command& Command::example(const std::string& line, const std::string& what) {
  state_->entry->examples.push_back({line, what});
  return *this;
}
Command& Command::exits(std::initializer_list<Exit> codes) {
  state_->entry->exits_declared = true;
  for (const Exit& exit : codes) add_exit(*state_->entry, exit);
  return *this;
}
Command& Command::json(const std::string& document) {
  state_->entry->has_json = true;
  state_->entry->json = document;
  return *this;
}
Command& Command::no_json(const std::string& reason) {
  state_->entry->has_json = false;
  state_->entry->json = reason;
  return *this;
}
Command& Command::environment(const std::string& flag, const std::string& variable) {
  for (Binding& binding : state_->program->bindings) {
    if (binding.entry == state_->entry && "--" + binding.key == flag) binding.environment = variable;
  }
  return *this;
}
Command& Command::action(std::function<int()> run) {
  // Of nested commands the innermost is told first, and it is the one that was named.
  state_->app->callback([program = state_->program.get(), run = std::move(run)] {
    if (!program->run) program->run = run;
  });
  return *this;
}
Command& Command::action(std::function<int(const Context&)> run) {
  return action(std::function<int()>([run = std::move(run)] { return run(make_context()); }));
}
std::shared_ptr<const Manual> Command::manual() const { return state_->program->manual; }

namespace {

const CLI::App& deepest(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : deepest(*parsed.back());
}

bool set_in_environment(const std::string& variable) {
  const char* value = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

// The parser's complaint in our words; those of our own checks come through as they are.
std::string misuse(const CLI::ParseError& error) {
  const std::string said = error.what();
  const std::string option = said.substr(0, said.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return option + " takes one value";
  const bool plain = dynamic_cast<const CLI::ValidationError*>(&error) != nullptr ||
                     dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;  // "operator is required"
  if (plain) return said;
  return "this cannot be read";
}

// Options of the command and of those above it that neither the command line nor the environment gave.
Status apply_configuration(Program& program, const CommandEntry& chosen) {
  RIDGE_TRY(configuration, read_configuration(*program.manual));
  for (const record::ConfiguredDefault& one : configuration.defaults) {
    for (Binding& binding : program.bindings) {
      const std::vector<std::string>& path = binding.entry->path;
      const bool above = path.size() <= chosen.path.size() && std::equal(path.begin(), path.end(), chosen.path.begin());
      if (!above || binding.key != one.option || program.manual->name_of(*binding.entry) != one.command) continue;
      if (set_in_environment(binding.environment)) continue;
      if (binding.parsed->count() > 0) continue;
      try {
        for (const std::string& value : one.values) binding.parsed->add_result(value);
        binding.parsed->run_callback();
      } catch (const CLI::ParseError& error) {
        return with_hint(invalid("{}: --{}: {}", configuration.path, one.option, misuse(error)),
                         "see: ridge config show");
      }
    }
  }
  return ok_status();
}

// What was typed and is no command or flag here, with what is close to it.
int refuse_unknown(const Manual& manual, const CommandEntry& entry, const std::string& typed) {
  const bool flag = typed.starts_with('-');
  const std::string word = flag ? typed.substr(0, typed.find('=')) : typed;
  std::vector<std::string> known = flag ? std::vector<std::string>{"--help"} : manual.child_names(entry);
  if (flag && entry.path.empty()) known.push_back("--version");
  if (flag) {
    for (const record::CommandOption* option : manual.options_of(entry))
      known.insert(known.end(), option->flags.begin(), option->flags.end());
  }
  const std::string name = manual.name_of(entry);
  if (!flag && !entry.group) {
    say(stderr, "{}: one argument too many: {}\n", name, typed);
  } else {
    say(stderr, "{}: no {} \"{}\"\n", name, flag ? "option" : "command", word);
  }
  const std::string close = did_you_mean(word, known);
  say(stderr, "       {}\n", close.empty() ? fmt::format("see: {} --help", name) : close);
  return kUsage;
}

int refuse(const Manual& manual, const CommandEntry& entry, const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty()) {
    const auto flag = std::find_if(unknown.begin(), unknown.end(), [](const auto& w) { return w.starts_with('-'); });
    return refuse_unknown(manual, entry, flag != unknown.end() ? *flag : unknown.front());
  }
  const std::string name = manual.name_of(entry);
  if (entry.group) {
    say(stderr, "{}: name a command: {}\n       see: {} --help\n", name, fmt::join(manual.child_names(entry), ", "),
        name);
    return kUsage;
  }
  const std::string what = misuse(error);
  say(stderr, "{}: {}\n       usage: {}\n       see:   {} --help\n", name, what, usage_line(manual, entry), name);
  return kUsage;
}

int run_chosen(Program& program, const CommandEntry& entry, bool json_asked) {
  const std::string name = program.manual->name_of(entry);
  if (json_asked && !entry.has_json && !entry.json.empty()) {
    return fail(with_hint(invalid("{} has no --json: {}", name, entry.json), fmt::format("see: {} --help", name)));
  }
  if (const Status applied = apply_configuration(program, entry); !applied) {
    // The commands that help to repair the file work without it, and those that a shell runs unasked.
    const std::string& first = entry.path.front();
    if (first != "config" && first != "help" && first != "completion") return fail(applied.error());
  }
  if (const Status usable = check_color_choice(); !usable) return fail(usable.error());
  return program.run ? program.run() : kUsage;
}

}  // namespace

int run_command_line(int argc, char** argv, const std::string& name, const std::string& about,
                     const std::string& version, const std::function<void(Command)>& define) {
  CLI::App app(about, name);
  app.set_version_flag("-V,--version", name + " " + version);
  auto program = std::make_shared<Program>();
  program->manual = std::make_shared<Manual>(name, version);
  auto root = std::make_shared<Command::State>();
  root->app = &app;
  root->program = program;
  root->entry = &program->manual->add({}, about);
  program->entries[&app] = root->entry;
  // The root lists every code: those of its commands.
  for (const Meaning& one : kMeanings) add_exit(*root->entry, one.code);
  define(Command(root));
  const auto current = [&]() -> const CommandEntry& { return *program->entries.at(&deepest(app)); };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    say("{}", help_text(*program->manual, current(), help_width(), colored(stdout)));
    return kSuccess;
  } catch (const CLI::CallForVersion& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return refuse(*program->manual, current(), app, error);
  }
  return run_chosen(*program, current(), app.count("--json") > 0);
}

}  // namespace ridge::cli
