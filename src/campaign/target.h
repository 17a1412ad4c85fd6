// performance_target: `metric [op] number unit [on all|any|geomean]`, for instance `hw_efficiency >= 90%`, `step 700
// TFLOPS`, `latency < 20 us` or `95 % of the bandwidth ceiling`. Prose is refused: a target that a program cannot check
// ends no campaign.
//
//   metric   hw_efficiency         roofline bound / latency, of the measured ceilings    unit %, or none for a fraction
//            bandwidth_efficiency  the same, of shapes that memory bounds
//            speedup               the primary metric against the baseline's             unit x (default)
//            *_tflops              forward, backward, combined_step ("step" for short)   unit TFLOPS (default), GFLOPS
//            *_gbps                the same                                              unit GB/s (default), TB/s,
//            MB/s latency, latency_p50, latency_p99                                           unit us (default), ns,
//            ms, s column:NAME:higher, column:NAME:lower                                       no unit
//   op       >= or > where more is better (default >=), <= or < where less is (default <=)
//
// `N % of the ceiling` is hw_efficiency, `N % of the bandwidth ceiling` bandwidth_efficiency.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/campaign.h"
#include "record/metric.h"
#include "ridge/result.h"

namespace ridge::campaign {

Result<record::Target> parse_target(std::string_view text);
// The canonical spelling; parse_target(format_target(t)) == t.
std::string format_target(const record::Target& target);

struct TargetStatus {
  bool reached = false;
  std::string detail;  // "geomean hw_efficiency 93.1 % >= 90 %"
};
// Against the points of the best candidate and of the baseline (same labels, same order) of a campaign that is judged
// by `primary`.
TargetStatus check_target(const record::Target& target, const std::vector<record::RooflinePoint>& best,
                          const std::vector<record::RooflinePoint>& baseline, const record::Metric& primary = {});
// Why a campaign cannot tell whether its target is reached: its measurements do not hold that metric. Empty: it can.
std::string target_problem(const record::CampaignSpec& spec);

// Geometric mean of the roofline fraction over the shapes; 0 when there is none.
double geomean_efficiency(const std::vector<record::RooflinePoint>& points);
// Geometric means over the shapes.
double geomean_flops(const std::vector<record::RooflinePoint>& points);  // FLOP/s
double geomean_bytes(const std::vector<record::RooflinePoint>& points);  // B/s

}  // namespace ridge::campaign
