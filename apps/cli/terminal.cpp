#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace ridge::cli {

GlobalOptions& globals() {
  static GlobalOptions options;
  return options;
}

int fail(const Error& error) {
  fmt::print(stderr, "ridge: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "       {}\n", error.hint);
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
    fmt::print(stderr, "\r\033[K{}", line.substr(0, 118));
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  shown_ = true;
}

void ProgressLine::note(std::string_view line) {
  clear();
  if (!globals().quiet) fmt::print(stderr, "{}\n", line);
}

void ProgressLine::clear() {
  if (shown_ && terminal_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  shown_ = false;
}

namespace {

bool is_numeric(std::string_view cell) {
  if (cell.empty()) return false;
  return std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
         ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1 &&
          std::isdigit(static_cast<unsigned char>(cell[1])) != 0);
}

}  // namespace

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& cell : header) widths.push_back(cell.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  // A column is aligned by its first filled cell; rows of failures are short.
  std::vector<bool> right(header.size());
  for (std::size_t i = 0; i < header.size(); ++i) {
    const auto filled =
        std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return i < row.size() && !row[i].empty(); });
    right[i] = filled != rows.end() && is_numeric((*filled)[i]);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      line += right[i] ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
      if (i + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(header);
  for (const auto& row : rows) add(row);
  return text;
}

std::string format_flops(double flops) {
  if (flops >= 1e12) return fmt::format("{:.2f} TFLOP/s", flops / 1e12);
  return fmt::format("{:.1f} GFLOP/s", flops / 1e9);
}

std::string format_bandwidth(double bandwidth) {
  if (bandwidth >= 1e12) return fmt::format("{:.2f} TB/s", bandwidth / 1e12);
  return fmt::format("{:.1f} GB/s", bandwidth / 1e9);
}

Result<double> parse_duration(std::string_view text) {
  const Error refused = with_hint(invalid("\"{}\" is not a duration", text), "write for instance 90s, 5m or 1h30m");
  double total = 0;
  std::size_t position = 0;
  while (position < text.size()) {
    std::size_t end = position;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end == position || end - position > 9 || end == text.size()) return refused;
    const double number = std::stod(std::string(text.substr(position, end - position)));
    switch (text[end]) {
      case 's': total += number; break;
      case 'm': total += 60 * number; break;
      case 'h': total += 3600 * number; break;
      default: return refused;
    }
    position = end + 1;
  }
  if (total <= 0) return refused;
  return total;
}

}  // namespace ridge::cli
