// Calibration: what the machine says when nothing changed. A/A sessions (the same kernel on both arms) give the noise
// of a session and show whether the arms are treated alike.
//
// Betting on signs (decide.h) assumes nothing about the size or the shape of the noise, but it does assume that the
// arms are treated alike: a session of two equal kernels must be as likely to favour one as the other. That is what is
// tested here, as a hypothesis: a machine is refused when a bias that matters is *shown*, not when noise leaves one
// possible. (A rule "|median| <= d / 4" alone would refuse most noisy but fair machines: with 8 sessions the
// median itself wanders by 0.44 sigma.)
#pragma once

#include <span>
#include <string>

namespace ridge::stats {

inline constexpr double kBiasLevel = 0.01;  // a fair machine is called biased so often

struct Calibration {
  int sessions = 0;
  double sigma = 0;            // robust standard deviation: stats::spread
  double median = 0;           // should be near 0
  double smallest_effect = 0;  // (1 + d) exp(2 sigma) - 1: 2 sigma above d a decision takes about 15 sessions
  double sign_p_value = 1;     // two-sided binomial p of the number of positive log ratios (zeros left out)
  bool biased = false;         // an arm is favoured: sign_p_value <= kBiasLevel
  bool too_noisy = false;      // smallest_effect exceeds `largest_effect`: nothing of interest can be decided
  bool healthy = false;        // enough finite sessions, neither biased nor too noisy
  bool proven_fair = false;    // |median| <= d / 4 as well
  std::string reason;          // one sentence with the values
};

// `min_effect` is d. Fewer than 4 sessions, or a value that is not finite, is never healthy. A fair machine is called
// biased in at most 1 % of calibrations; with fewer than 8 sessions none can be.
Calibration calibrate(std::span<const double> session_log_ratios, double min_effect, double largest_effect = 1.0);

}  // namespace ridge::stats
