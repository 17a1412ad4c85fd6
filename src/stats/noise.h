// Calibration: what the machine says when nothing changed. A/A sessions (the same kernel on both arms) give the noise
// of a session and show whether the arms are treated alike.
#pragma once

#include <span>
#include <string>

namespace ridge::stats {

struct Calibration {
  int sessions = 0;
  double sigma = 0;              // 1.4826 MAD of the A/A log ratios; insensitive to a wild session
  double median = 0;             // should be near 0
  double smallest_effect = 0;    // exp(2 sigma) - 1: gains below it take more than about 15 sessions to accept
  double sign_p_value = 1;       // two-sided binomial p of the number of positive log ratios (zeros left out)
  bool healthy = false;          // |median| <= d / 4 and sign_p_value > 0.01
  bool effect_decidable = true;  // d >= smallest_effect; when false decisions are valid but will often be rejections
  std::string reason;            // one sentence with the values
};

// `min_effect` is d. Fewer than 4 sessions, or a value that is not finite, is never healthy. With 24 or more sessions a
// fair machine fails by chance in about 1 % of calibrations; with fewer than 8 the sign balance can hardly fail at all.
Calibration calibrate(std::span<const double> session_log_ratios, double min_effect);

}  // namespace ridge::stats
