// A subcommand of `ridge`: its options, its examples, and what it does. Keeps the command-line library out of the
// subcommand files, which would each pay seconds of compile time for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ridge::cli {

// Exit codes, the same for every subcommand; `ridge --help` prints them.
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

class Command {
 public:
  struct State;
  explicit Command(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Command subcommand(const std::string& name, const std::string& help);
  Command& option(const std::string& flags, std::string& value, const std::string& help);
  Command& option(const std::string& flags, std::vector<std::string>& values, const std::string& help);
  Command& option(const std::string& flags, std::int64_t& value, const std::string& help);
  Command& option(const std::string& flags, std::optional<std::int64_t>& value, const std::string& help);
  Command& option(const std::string& flags, double& value, const std::string& help);
  Command& flag(const std::string& flags, bool& value, const std::string& help);
  Command& positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  Command& positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      bool required = true);
  // A line under "Examples:" in the help.
  Command& example(const std::string& line, const std::string& what);
  // Runs when this subcommand was named; returns the exit code.
  Command& action(std::function<int()> run);

 private:
  std::shared_ptr<State> state_;
};

// Declares everything with `define`, parses, runs the action; usage errors print what is wrong and what is close.
int run_command_line(int argc, char** argv, const std::string& name, const std::string& about,
                     const std::string& footer, const std::string& version, const std::function<void(Command)>& define);

}  // namespace ridge::cli
