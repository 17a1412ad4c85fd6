// What the command line writes: results to standard output, progress and errors to standard error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "command.h"
#include "record/worker.h"
#include "ridge/result.h"

namespace ridge::cli {

// Set by the flags that every subcommand has.
struct GlobalOptions {
  bool json = false;   // --json: one JSON document on standard output and nothing else there
  bool quiet = false;  // --quiet: no progress
  std::string cache_directory;
};
GlobalOptions& globals();

// Prints "ridge: message" and the way out; gives the exit code that belongs to the kind of error.
int fail(const Error& error);

// Progress on standard error: one line rewritten in place on a terminal, at most one plain line every few seconds when
// piped, nothing with --quiet.
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

// Columns padded to their widest cell; numbers (cells that start with a digit or sign) are right-aligned.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

std::string format_flops(double flops);          // "151.2 GFLOP/s"
std::string format_bandwidth(double bandwidth);  // "14.4 GB/s"

// "5m", "90s", "1h30m", "2h" in seconds.
Result<double> parse_duration(std::string_view text);

}  // namespace ridge::cli
