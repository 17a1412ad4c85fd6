// Time behind an interface, so that a whole campaign can run under a virtual clock.
#pragma once

#include <cstdint>
#include <string>

namespace ridge {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds since an arbitrary point; never goes back.
  virtual double monotonic() = 0;
  // Seconds since 1970-01-01 UTC.
  virtual std::int64_t unix_time() = 0;
};

class SystemClock final : public Clock {
 public:
  double monotonic() override;
  std::int64_t unix_time() override;
};

// Advances by `step` seconds at every reading and by advance().
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(std::int64_t start_unix = 1'767'225'600, double step = 0.0) : start_(start_unix), step_(step) {}
  double monotonic() override { return elapsed_ += step_; }
  std::int64_t unix_time() override { return start_ + static_cast<std::int64_t>(elapsed_); }
  void advance(double seconds) { elapsed_ += seconds; }

 private:
  std::int64_t start_;
  double step_;
  double elapsed_ = 0.0;
};

std::string format_minute(std::int64_t unix_time);  // "2026-11-21 07:30", UTC
std::string format_day(std::int64_t unix_time);     // "20261121", UTC
std::string format_duration(double seconds);        // "4 min 12 s", "850 ms"

}  // namespace ridge
