// performance_target: `metric op number unit [on all|any|geomean]`, for instance `hw_efficiency >= 90%` or
// `forward_tflops >= 0.2 TFLOPS on all`. Prose is refused: a target that a program cannot check ends no campaign.
//
//   metric   hw_efficiency   roofline bound / latency, of the measured ceilings    unit %, or none for a fraction
//            forward_tflops  FLOP of the case / latency                            unit TFLOPS (default) or GFLOPS
//            speedup         baseline latency / latency                            unit x (default)
//   op       >= or >
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::campaign {

Result<record::Target> parse_target(std::string_view text);
// The canonical spelling; parse_target(format_target(t)) == t.
std::string format_target(const record::Target& target);

struct TargetStatus {
  bool reached = false;
  std::string detail;  // "geomean hw_efficiency 93.1 % >= 90 %"
};
// Against the points of the best candidate and of the baseline (same labels, same order).
TargetStatus check_target(const record::Target& target, const std::vector<record::RooflinePoint>& best,
                          const std::vector<record::RooflinePoint>& baseline);

// Geometric mean of the roofline fraction over the shapes; 0 when there is none.
double geomean_efficiency(const std::vector<record::RooflinePoint>& points);
// Geometric means over the shapes.
double geomean_flops(const std::vector<record::RooflinePoint>& points);  // FLOP/s
double geomean_bytes(const std::vector<record::RooflinePoint>& points);  // B/s

}  // namespace ridge::campaign
