#include "campaign/score.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace ridge::campaign {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string signed_percent(double now, double before) {
  return std::isfinite(now) && std::isfinite(before) ? fmt::format("{:+.3f}%", percent_change(now, before))
                                                     : std::string("—");
}

}  // namespace

double combined_step_tflops(double m, double n, double k, double forward_ms, double backward_ms) {
  return 6.0 * m * n * k / ((forward_ms + backward_ms) * 1e-3) / 1e12;
}

double combined_step_tflops(double forward_tflops, double backward_tflops) {
  return 6.0 / (2.0 / forward_tflops + 4.0 / backward_tflops);
}

double percent_change(double now, double before) { return 100.0 * (now / before - 1.0); }

std::string versus_baseline(const StepScore& now, const StepScore& baseline) {
  return fmt::format("step {}, fwd {}, bwd {}", signed_percent(now.step, baseline.step),
                     signed_percent(now.forward, baseline.forward), signed_percent(now.backward, baseline.backward));
}

double weight_cache_bound(double skipped_seconds, double step_seconds) {
  if (!(step_seconds > 0.0) || !(skipped_seconds >= 0.0)) return kNone;
  return skipped_seconds / step_seconds;
}

double amdahl_speedup(double share, double factor) { return 1.0 / (1.0 - share * (1.0 - 1.0 / factor)); }

}  // namespace ridge::campaign
