// A subcommand of `ridge`: its options, examples, exit codes and action. Every declaration is one row of the table of
// commands (manual.h) that help, man pages, completion and the configuration file's check are generated from. Keeps the
// command-line library out of the subcommand files, which would each pay seconds of compile time for it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ridge::service {
struct Context;
}

namespace ridge::cli {

using service::Context;
class Manual;

// Exit codes, the same for every subcommand; every help prints those that its command can return.
enum ExitCode : int {
  kSuccess = 0,
  kNo = 1,           // it ran, and the answer is no: a check failed, a verification found a difference
  kUsage = 2,        // a flag, a name, a shape or a file that cannot be used
  kUnavailable = 3,  // this machine or build cannot do it
  kUnknown = 4,      // no source states the fact that was asked for
  kSystem = 5,       // the operating system refused: disk full, permission
  kFault = 6,        // a tool failed or a bug of ours
  kHeld = 7,         // another process holds it, or its state does not allow it
  kPaused = 8,       // a campaign is paused; the last line says how to go on
  kInterrupted = 130
};

// An exit code of one command. Without words, those that the code has everywhere.
struct Exit {
  Exit(int exit_code, std::string words = {}) : code(exit_code), meaning(std::move(words)) {}  // NOLINT: `{kNo, kHeld}`
  int code;
  std::string meaning;
};

class Command {
 public:
  struct State;
  explicit Command(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Command subcommand(const std::string& name, const std::string& help);
  // One below a command that does something itself: `ridge handoff init` beside `ridge handoff OPERATOR`.
  Command inner_command(const std::string& name, const std::string& help);
  // The help lists subcommands that are declared from here on under this heading.
  Command& heading(const std::string& text);
  // Flags are separated by commas; what the option takes may follow after a space: "-o,--out FILE". Completion offers
  // the values of "cold|warm", files for FILE, folders for DIR, and names that this build knows for OPERATOR and
  // PRODUCT.
  Command& option(const std::string& flags, std::string& value, const std::string& help);
  Command& option(const std::string& flags, std::vector<std::string>& values, const std::string& help);
  Command& option(const std::string& flags, std::int64_t& value, const std::string& help);
  Command& option(const std::string& flags, std::optional<std::int64_t>& value, const std::string& help);
  Command& option(const std::string& flags, double& value, const std::string& help);
  Command& flag(const std::string& flags, bool& value, const std::string& help);
  Command& positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  Command& positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      bool required = true);
  // A line under "Examples" in the help.
  Command& example(const std::string& line, const std::string& what);
  // The codes that the command can return beside success, misuse and fault, which all of them can.
  Command& exits(std::initializer_list<Exit> codes);
  // States what the document of --json holds, or why there is none: then --json is refused.
  Command& json(const std::string& document);
  Command& no_json(const std::string& reason);
  // A set variable beats the configuration file, the flag beats both.
  Command& environment(const std::string& flag, const std::string& variable);
  // Runs when this subcommand was named; returns the exit code.
  Command& action(std::function<int()> run);
  // The same of one that asks a use case: it gets the context that the flags of this call make.
  Command& action(std::function<int(const Context&)> run);
  // The table of all commands; complete when actions run.
  [[nodiscard]] std::shared_ptr<const Manual> manual() const;

 private:
  Command& add_option(const std::string& flags, const std::string& help, std::string takes, std::string value,
                      const std::function<void*(const std::string&)>& declare);

  std::shared_ptr<State> state_;
};

// Declares everything with `define`, parses, reads the user's defaults for what was not given, runs the action. Misuse
// prints what is wrong and what is close, and is exit code 2.
int run_command_line(int argc, char** argv, const std::string& name, const std::string& about,
                     const std::string& version, const std::function<void(Command)>& define);

}  // namespace ridge::cli
