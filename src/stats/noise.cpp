#include "stats/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/summary.h"

namespace ridge::stats {
namespace {

constexpr int kFewestSessions = 4;
constexpr double kSignLevel = 0.01;

std::string explain(const Calibration& c, double min_effect, int positive, int signs) {
  const std::string figures =
      fmt::format("{} A/A sessions: median {:+.3f} %, sigma {:.3f} %, {} of {} positive (p = {:.2g})", c.sessions,
                  100 * c.median, 100 * c.sigma, positive, signs, c.sign_p_value);
  if (c.sessions < kFewestSessions) return fmt::format("{}; at least {} are needed", figures, kFewestSessions);
  if (!(std::fabs(c.median) <= min_effect / 4)) {
    return fmt::format(
        "{}; the median exceeds a quarter of the smallest effect of interest, {:.3g} %: this machine is "
        "too noisy or favours an arm",
        figures, 100 * min_effect);
  }
  if (!(c.sign_p_value > kSignLevel)) return fmt::format("{}; one arm is favoured", figures);
  if (!c.effect_decidable) {
    return fmt::format("{}; gains below {:.2g} % will mostly be rejected here", figures, 100 * c.smallest_effect);
  }
  return figures;
}

}  // namespace

Calibration calibrate(std::span<const double> session_log_ratios, double min_effect) {
  const auto count = [&](auto predicate) {
    return static_cast<int>(std::count_if(session_log_ratios.begin(), session_log_ratios.end(), predicate));
  };
  const int positive = count([](double x) { return x > 0; });
  const int signs = positive + count([](double x) { return x < 0; });
  Calibration result;
  result.sessions = static_cast<int>(session_log_ratios.size());
  result.median = median(session_log_ratios);
  result.sigma = kMadToSigma * mad(session_log_ratios);
  result.smallest_effect = std::expm1(2 * result.sigma);
  result.sign_p_value = sign_test_p_value(positive, signs);
  result.effect_decidable = min_effect >= result.smallest_effect;
  const bool finite = count([](double x) { return std::isfinite(x); }) == result.sessions;
  result.healthy = result.sessions >= kFewestSessions && finite && std::fabs(result.median) <= min_effect / 4 &&
                   result.sign_p_value > kSignLevel;
  result.reason = explain(result, min_effect, positive, signs);
  return result;
}

}  // namespace ridge::stats
