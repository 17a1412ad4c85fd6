#include "report/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/clock.h"

namespace ridge::report {
namespace {

struct Prefix {
  double scale;
  const char* name;
};

constexpr std::array<Prefix, 5> kPrefixes = {{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};

std::string scaled(double value, const char* unit) {
  if (!std::isfinite(value)) return "unknown";
  for (const Prefix& prefix : kPrefixes) {
    if (std::abs(value) >= prefix.scale)
      return fmt::format("{} {}{}", digits3(value / prefix.scale), prefix.name, unit);
  }
  return fmt::format("{} {}", digits3(value), unit);
}

}  // namespace

SpeedUnit speed_unit(double speed, const std::string& unit) {
  for (const Prefix& prefix : kPrefixes) {
    if (std::isfinite(speed) && speed >= prefix.scale) return {prefix.scale, prefix.name + unit};
  }
  return {1, unit};
}

SpeedUnit time_unit(double seconds) {
  constexpr std::array<Prefix, 4> kTimes = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}};
  for (const Prefix& time : kTimes) {
    if (std::isfinite(seconds) && seconds >= time.scale) return {time.scale, time.name};
  }
  return {1e-9, "ns"};
}

std::string SpeedUnit::text(double speed) const {
  if (!std::isfinite(speed)) return "unknown";
  return fmt::format("{} {}", digits3(speed / scale), name);
}

std::string digits3(double value) {
  if (!std::isfinite(value)) return "unknown";
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 1e6 || size < 1e-4) return fmt::format("{:.2e}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(3 - before, 0, 6));
}

std::string plain(double value) {
  std::string text = digits3(value);
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string plain_percent(double fraction) {
  return std::isfinite(fraction) ? plain(fraction * 100) + " %" : "unknown";
}

std::string rate_text(double value, const std::string& unit) { return scaled(value, unit.c_str()); }

std::string latency_text(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds >= 1) return digits3(seconds) + " s";
  if (seconds >= 1e-3) return digits3(seconds * 1e3) + " ms";
  if (seconds >= 1e-6) return digits3(seconds * 1e6) + " µs";
  return digits3(seconds * 1e9) + " ns";
}

std::string percent_text(double fraction) {
  if (!std::isfinite(fraction)) return "unknown";
  const double percent = fraction * 100;
  return fmt::format("{:.{}f} %", percent, std::abs(percent) >= 10 || percent == 0 ? 1 : 2);
}

std::string gain_text(double fraction) {
  if (!std::isfinite(fraction)) return "unknown";
  const double percent = std::abs(fraction) * 100;
  const char* sign = fraction < 0 ? "−" : "+";
  return fmt::format("{}{:.{}f} %", sign, percent, percent >= 100 ? 0 : percent >= 10 ? 1 : 2);
}

// Near 1 the digits that tell are those of the difference.
std::string ratio_text(double ratio) {
  if (!std::isfinite(ratio)) return "unknown";
  if (ratio == 1) return "1×";
  return (std::abs(ratio - 1) < 0.1 ? fmt::format("{:.3f}", ratio) : digits3(ratio)) + "×";
}

std::string interval_text(const record::Effect& effect) {
  return fmt::format("{} to {}", ratio_text(effect.low), ratio_text(effect.high));
}

std::string gain_interval_text(const record::Effect& effect) {
  return fmt::format("{} to {}", gain_text(effect.low - 1), gain_text(effect.high - 1));
}

std::string count_text(double value) {
  if (!std::isfinite(value)) return "unknown";
  if (value != std::floor(value)) return digits3(value);
  std::string text = fmt::format("{:.0f}", std::abs(value));
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, "\u202f");  // thin space that does not break
  return value < 0 ? "−" + text : text;
}

std::string duration_text(double seconds) {
  std::string text = format_duration(seconds);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 2, "µs");
  return text;
}

}  // namespace ridge::report
