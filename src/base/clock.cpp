#include "base/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <ctime>

namespace ridge {

double SystemClock::monotonic() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t SystemClock::unix_time() { return static_cast<std::int64_t>(std::time(nullptr)); }

namespace {

std::tm utc(std::int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts{};
  gmtime_r(&time, &parts);
  return parts;
}

}  // namespace

std::string format_minute(std::int64_t unix_time) {
  const std::tm t = utc(unix_time);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min);
}

std::string format_day(std::int64_t unix_time) {
  const std::tm t = utc(unix_time);
  return fmt::format("{:04}{:02}{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace ridge
