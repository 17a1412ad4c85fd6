// The arithmetic of scores that people compute by hand from benchmark tables, to the last digit.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "campaign/columns.h"
#include "record/metric.h"

namespace ridge::campaign {

// Throughput of a training step, over the shapes: geometric means, and the best shape. The step is the work of both
// directions over the sum of their times; of a matrix product that comes to 6 / (2/F + 4/B). NaN for not measured.
struct StepScore {
  double forward = std::numeric_limits<double>::quiet_NaN(), backward = forward, step = forward;
  double forward_peak = forward, backward_peak = forward;
};
// A point without directions is a forward pass alone; backward then stays NaN.
StepScore step_score(const std::vector<record::RooflinePoint>& points, Rate rate);

// The step as the driver of the viewer counts it: sqrt(forward x backward), or forward alone. It can rise while a step
// gets slower, and is therefore in exports only.
double step_geomean(const StepScore& score);

// What a metric says of one point, in its unit, and of all of them: the geometric mean. NaN for not measured.
double metric_value(const record::Metric& metric, const record::RooflinePoint& point);
double metric_value(const record::Metric& metric, const std::vector<record::RooflinePoint>& points);

// "latency_p99 us"; a column by its name.
std::string title_of(const record::Metric& metric);

// Three decimals, or four significant digits of a small number; a dash for one that is not known.
std::string score_text(double value);
// Four decimals, or four significant digits of a small number.
std::string rate_text(double value);

// 100 (now / before - 1)
double percent_change(double now, double before);

// The cell "vs Baseline" of the trend: "step +8.363%, fwd +6.947%, bwd +8.714%"; without a backward pass bwd is a dash.
std::string versus_baseline(const StepScore& now, const StepScore& baseline);

// Least time a weight cache can save per step, as a fraction of the step: what it skips / what the step takes.
double weight_cache_bound(double skipped_seconds, double step_seconds);

// Largest speed-up of a whole of which `share` is sped up by `factor` (infinity: to nothing). 1 / (1 - share (1 -
// 1/f)).
double amdahl_speedup(double share, double factor);

}  // namespace ridge::campaign
