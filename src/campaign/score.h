// The arithmetic of scores that people compute by hand from benchmark tables, to the last digit.
#pragma once

#include <cstdint>
#include <string>

namespace ridge::campaign {

// Throughput of a whole training step of a matrix product: 2MNK forward and 4MNK backward in the sum of both times.
double combined_step_tflops(double m, double n, double k, double forward_ms, double backward_ms);
// The same from the two throughputs: 6 / (2/F + 4/B), which is what the time sum comes to.
double combined_step_tflops(double forward_tflops, double backward_tflops);

// 100 (now / before - 1)
double percent_change(double now, double before);

// The cell "vs Baseline" of the trend: "step +8.363%, fwd +6.947%, bwd +8.714%"; without a backward pass bwd is a dash.
struct StepScore {
  double forward = 0, backward = 0, step = 0;  // TFLOPS; backward NaN when there is none
};
std::string versus_baseline(const StepScore& now, const StepScore& baseline);

// Least time a weight cache can save per step, as a fraction of the step: what it skips / what the step takes.
double weight_cache_bound(double skipped_seconds, double step_seconds);

// Largest speed-up of a whole of which `share` is sped up by `factor` (infinity: to nothing). 1 / (1 - share (1 -
// 1/f)).
double amdahl_speedup(double share, double factor);

}  // namespace ridge::campaign
