// What the command line writes: results to standard output, progress and errors to standard error.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "command.h"
#include "layout.h"
#include "record/command_table.h"
#include "record/json.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "say.h"

namespace ridge::cli {

// Set by the flags that every subcommand has, and read by what prints: no use case sees them.
struct GlobalOptions {
  bool json = false;           // --json: one JSON document on standard output and nothing else there
  bool quiet = false;          // --quiet: no progress
  std::string color = "auto";  // --color: auto, always or never
  std::string cache_directory;
};
GlobalOptions& globals();

// Columns of the terminal that `stream` is; else those of COLUMNS; else 0: no limit.
std::size_t terminal_width(std::FILE* stream);
// For prose: that of a terminal within 60 to 110, else 100.
std::size_t help_width();

// --color, then NO_COLOR, then whether `stream` is a terminal that knows colours.
bool colored(std::FILE* stream);
Status check_color_choice();

enum class Paint { kGood, kBad, kWarning, kStrong };
std::string painted(Paint paint, std::string_view text, std::FILE* stream = stdout);
// The word in the colour of what it says: "accepted", "PASS" and "ok" green, "WRONG", "error" and "FAIL" red,
// "rolled back" and "warning" yellow; another word as it is.
std::string painted_verdict(std::string_view word, std::FILE* stream = stdout);
// The same for the first verdict of every line that stands in its first columns, as in a list of rounds.
std::string painted_lines(const std::string& text, std::FILE* stream = stdout);

// What a command that changed something says: its message and the command to run next, or both as JSON.
int answer(const std::string& message, const std::string& next = {});
int answer(const Result<record::CommandAnswer>& result);

// A record as --json prints it.
template <class T>
int print_json(const T& record, int code = 0) {
  write_text(stdout, record::to_pretty(record) + "\n");
  return code;
}

// Prints "ridge: message" and the way out; gives the exit code that belongs to the kind of error.
int fail(const Error& error);

// Progress on standard error: one line rewritten in place on a terminal, never wider than it; at most one plain line
// every few seconds when piped; nothing with --quiet.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const record::Progress& progress);
  // A line that stays: a round's result, a warning.
  void note(std::string_view line);
  void clear();

 private:
  bool terminal_ = false, shown_ = false;
  double started_ = 0, last_ = 0;
  SystemClock clock_;
};

// A table (layout.h) that fits the terminal of standard output.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

std::string format_flops(double flops);          // "151.2 GFLOP/s"
std::string format_bandwidth(double bandwidth);  // "14.4 GB/s"

}  // namespace ridge::cli
