#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace ridge::cli {

struct Command::State {
  CLI::App* app = nullptr;
  std::shared_ptr<std::function<int()>> chosen;
  std::shared_ptr<std::vector<std::pair<std::string, std::string>>> examples =
      std::make_shared<std::vector<std::pair<std::string, std::string>>>();
};

namespace {

std::string example_text(const std::vector<std::pair<std::string, std::string>>& examples) {
  std::string text = "\nExamples:";
  for (const auto& [line, what] : examples) text += fmt::format("\n  {}\n      {}", line, what);
  return text;
}

}  // namespace

Command Command::subcommand(const std::string& name, const std::string& help) {
  auto state = std::make_shared<State>();
  state->app = state_->app->add_subcommand(name, help);
  state->app->fallthrough(true);
  state->chosen = state_->chosen;
  // A group such as `ridge campaign` needs one of its subcommands.
  state_->app->require_subcommand(1);
  return Command(std::move(state));
}

Command& Command::option(const std::string& flags, std::string& value, const std::string& help) {
  state_->app->add_option(flags, value, help)->capture_default_str()->take_last();
  return *this;
}
Command& Command::option(const std::string& flags, std::vector<std::string>& values, const std::string& help) {
  state_->app->add_option(flags, values, help)->expected(1)->take_all();
  return *this;
}
Command& Command::option(const std::string& flags, std::int64_t& value, const std::string& help) {
  state_->app->add_option(flags, value, help)->capture_default_str()->take_last();
  return *this;
}
Command& Command::option(const std::string& flags, std::optional<std::int64_t>& value, const std::string& help) {
  state_->app->add_option(flags, value, help)->take_last();
  return *this;
}
Command& Command::option(const std::string& flags, double& value, const std::string& help) {
  state_->app->add_option(flags, value, help)->capture_default_str()->take_last();
  return *this;
}
Command& Command::flag(const std::string& flags, bool& value, const std::string& help) {
  state_->app->add_flag(flags, value, help);
  return *this;
}
Command& Command::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  state_->app->add_option(name, value, help)->required(required);
  return *this;
}
Command& Command::positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                             bool required) {
  state_->app->add_option(name, values, help)->required(required);
  return *this;
}
Command& Command::example(const std::string& line, const std::string& what) {
  state_->examples->emplace_back(line, what);
  state_->app->footer(example_text(*state_->examples));
  return *this;
}
Command& Command::action(std::function<int()> run) {
  state_->app->callback([chosen = state_->chosen, run = std::move(run)] { *chosen = run; });
  return *this;
}

int run_command_line(int argc, char** argv, const std::string& name, const std::string& about,
                     const std::string& footer, const std::string& version,
                     const std::function<void(Command)>& define) {
  CLI::App app(about, name);
  app.footer(footer);
  app.set_version_flag("--version", version);
  app.get_formatter()->column_width(34);
  auto root = std::make_shared<Command::State>();
  root->app = &app;
  root->chosen = std::make_shared<std::function<int()>>();
  define(Command(root));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app.remaining(true);
    fmt::print(stderr, "{}: {}", name, error.what());
    if (!unknown.empty()) fmt::print(stderr, " (not understood: {})", fmt::join(unknown, " "));
    fmt::print(stderr, "\nRun with --help for what is allowed.\n");
    return kUsage;
  }
  return *root->chosen ? (*root->chosen)() : kUsage;
}

}  // namespace ridge::cli
