#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/visible.h"
#include "context.h"
#include "record/command_table.h"
#include "record/json.h"
#include "say.h"

namespace ridge::cli {

GlobalOptions& globals() {
  static GlobalOptions options;
  return options;
}

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

struct Verdict {
  std::string_view word;
  Paint paint;
};
constexpr Verdict kVerdicts[] = {{"accepted", Paint::kGood},
                                 {"PASS", Paint::kGood},
                                 {"FASTER", Paint::kGood},
                                 {"pass", Paint::kGood},
                                 {"ok", Paint::kGood},
                                 {"yes", Paint::kGood},
                                 {"faster", Paint::kGood},
                                 {"rolled back", Paint::kWarning},
                                 {"rejected", Paint::kWarning},
                                 {"AMBIGUOUS", Paint::kWarning},
                                 {"SLOWER", Paint::kWarning},
                                 {"inconclusive", Paint::kWarning},
                                 {"warning", Paint::kWarning},
                                 {"slower", Paint::kWarning},
                                 {"QUICK LOOK", Paint::kWarning},
                                 {"NOT_CLAIMED", Paint::kWarning},
                                 {"DECLINED", Paint::kWarning},
                                 {"WRONG", Paint::kBad},
                                 {"CHEAT", Paint::kBad},
                                 {"COMPILE", Paint::kBad},
                                 {"CRASH", Paint::kBad},
                                 {"HANG", Paint::kBad},
                                 {"OOM", Paint::kBad},
                                 {"HARNESS_FAULT", Paint::kBad},
                                 {"FAIL", Paint::kBad},
                                 {"fail", Paint::kBad},
                                 {"error", Paint::kBad},
                                 {"bad", Paint::kBad},
                                 {"no", Paint::kBad},
                                 {"NO", Paint::kBad}};

const Verdict* verdict_of(std::string_view word) {
  const auto found =
      std::find_if(std::begin(kVerdicts), std::end(kVerdicts), [&](const Verdict& one) { return one.word == word; });
  return found == std::end(kVerdicts) ? nullptr : found;
}

}  // namespace

std::size_t terminal_width(std::FILE* stream) {
  winsize size{};
  const int descriptor = ::fileno(stream);
  const bool terminal = ::isatty(descriptor) == 1;
  if (terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const long columns = std::strtol(environment("COLUMNS").c_str(), nullptr, 10);
  if (columns > 0 && columns < 10'000) return static_cast<std::size_t>(columns);
  return terminal ? 80 : 0;
}

std::size_t help_width() {
  const std::size_t width = terminal_width(stdout);
  return width == 0 ? 100 : std::clamp<std::size_t>(width, 60, 110);
}

bool colored(std::FILE* stream) {
  if (globals().color != "auto") return globals().color == "always";
  return environment("NO_COLOR").empty() && environment("TERM") != "dumb" && ::isatty(::fileno(stream)) == 1;
}

Status check_color_choice() {
  const std::string& color = globals().color;
  if (color == "auto" || color == "always" || color == "never") return ok_status();
  return with_hint(invalid("--color {} is unknown", color), "use auto, always or never");
}

std::string painted(Paint paint, std::string_view text, std::FILE* stream) {
  if (!colored(stream)) return std::string(text);
  const char* code = paint == Paint::kGood ? "32" : paint == Paint::kBad ? "31" : paint == Paint::kWarning ? "33" : "1";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string painted_verdict(std::string_view word, std::FILE* stream) {
  const Verdict* verdict = verdict_of(word);
  return verdict == nullptr ? std::string(word) : painted(verdict->paint, word, stream);
}

std::string painted_lines(const std::string& text, std::FILE* stream) {
  constexpr std::size_t kFirstColumns = 24;
  if (!colored(stream)) return text;
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    for (const Verdict& one : kVerdicts) {
      const std::size_t found = (line + " ").find(fmt::format(" {} ", one.word));
      if (found == std::string::npos || found > kFirstColumns) continue;
      line.replace(found + 1, one.word.size(), painted(one.paint, one.word, stream));
      break;
    }
    all += line + (end < text.size() ? "\n" : "");
    at = end + 1;
  }
  return all;
}

int answer(const std::string& message, const std::string& next) {
  if (globals().json) {
    say("{}\n", record::to_pretty(record::CommandAnswer{message, next}));
    return kSuccess;
  }
  say("{}\n", message);
  if (!next.empty()) say("Next: {}\n", next);
  return kSuccess;
}

int answer(const Result<record::CommandAnswer>& result) {
  return result ? answer(result->message, result->next) : fail(result.error());
}

int fail(const Error& error) {
  say(stderr, "{} {}\n", painted(Paint::kBad, "ridge:", stderr), error.message);
  if (!error.hint.empty()) say(stderr, "       {}\n", error.hint);
  if (error.code == ErrorCode::kConflict && interruptions() > 0) return kInterrupted;
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt: return kUsage;
    case ErrorCode::kUnsupported: return kUnavailable;
    case ErrorCode::kIo: return kSystem;
    case ErrorCode::kConflict: return kHeld;
    case ErrorCode::kToolFailed:
    case ErrorCode::kTimeout:
    case ErrorCode::kInternal: return kFault;
  }
  return kFault;
}

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) { started_ = clock_.monotonic(); }
ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(const record::Progress& progress) {
  if (globals().quiet) return;
  const double now = clock_.monotonic();
  const double interval = terminal_ ? 0.1 : 5.0;
  if (shown_ && now - last_ < interval) return;
  last_ = now;
  std::string left;
  if (progress.fraction > 0.02 && progress.fraction < 1.0) {
    left = ", about " + format_duration((now - started_) * (1.0 - progress.fraction) / progress.fraction) + " left";
  }
  const std::string line =
      fmt::format("{:3.0f} %  {}: {}{}", 100.0 * progress.fraction, progress.stage, progress.detail, left);
  if (terminal_) {
    // A line that reached the last column would be broken by some terminals, and its first half would stay.
    fmt::print(stderr, "\r\033[K{}", cut_to(visible(line), std::max<std::size_t>(terminal_width(stderr), 2) - 1));
    std::fflush(stderr);
  } else {
    say(stderr, "{}\n", line);
  }
  shown_ = true;
}

void ProgressLine::note(std::string_view line) {
  clear();
  if (!globals().quiet) say(stderr, "{}\n", line);
}

void ProgressLine::clear() {
  if (shown_ && terminal_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  shown_ = false;
}

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  return lay_out_table(header, rows, {.width = terminal_width(stdout)});
}

std::string format_flops(double flops) {
  if (flops >= 1e12) return fmt::format("{:.2f} TFLOP/s", flops / 1e12);
  return fmt::format("{:.1f} GFLOP/s", flops / 1e9);
}

std::string format_bandwidth(double bandwidth) {
  if (bandwidth >= 1e12) return fmt::format("{:.2f} TB/s", bandwidth / 1e12);
  return fmt::format("{:.1f} GB/s", bandwidth / 1e9);
}

}  // namespace ridge::cli
