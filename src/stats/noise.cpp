#include "stats/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/summary.h"

namespace ridge::stats {
namespace {

constexpr int kFewestSessions = 4;
constexpr double kShare = 0.25;  // of d: a smaller bias does not matter

std::string explain(const Calibration& c, int positive, int signs) {
  if (c.sessions == 0) return "not one valid A/A session was measured";
  const std::string figures =
      fmt::format("{} A/A sessions: median {:+.3f} %, sigma {:.3f} %, {} of {} positive (p = {:.2g})", c.sessions,
                  100 * c.median, 100 * c.sigma, positive, signs, c.sign_p_value);
  if (c.sessions < kFewestSessions) return fmt::format("{}; at least {} are needed", figures, kFewestSessions);
  if (c.biased) return figures + "; one arm is favoured: this machine is biased";
  if (c.too_noisy) {
    return fmt::format("{}; only differences above {:.0f} % could be decided: this machine is too noisy", figures,
                       100 * c.smallest_effect);
  }
  std::string text =
      fmt::format("{}; gains above {:.2g} % are decided in about 15 sessions", figures, 100 * c.smallest_effect);
  if (!c.proven_fair) text += fmt::format("; a bias up to {:.2g} % cannot be excluded", 100 * std::fabs(c.median));
  return text;
}

}  // namespace

Calibration calibrate(std::span<const double> session_log_ratios, double min_effect, double largest_effect) {
  const auto count = [&](auto predicate) {
    return static_cast<int>(std::count_if(session_log_ratios.begin(), session_log_ratios.end(), predicate));
  };
  const int positive = count([](double x) { return x > 0; });
  const int signs = positive + count([](double x) { return x < 0; });
  Calibration result;
  result.sessions = static_cast<int>(session_log_ratios.size());
  result.median = median(session_log_ratios);
  result.sigma = spread(session_log_ratios);
  result.smallest_effect = (1 + min_effect) * std::exp(2 * result.sigma) - 1;
  result.sign_p_value = sign_test_p_value(positive, signs);
  result.biased = result.sign_p_value <= kBiasLevel;
  result.too_noisy = !(result.smallest_effect <= largest_effect);
  result.proven_fair = !result.biased && std::fabs(result.median) <= kShare * min_effect;
  const bool finite = count([](double x) { return std::isfinite(x); }) == result.sessions;
  result.healthy = result.sessions >= kFewestSessions && finite && !result.biased && !result.too_noisy;
  result.reason = explain(result, positive, signs);
  return result;
}

}  // namespace ridge::stats
