// How large the sessions of fixed-size measurements (calibration, final) may be, so that they fit their share of the
// budget. The confirmation sessions of a round are planned by the worker, from what its screening session saw.
#pragma once

#include <cstdint>
#include <vector>

#include "record/measurement.h"

namespace ridge::campaign {

struct SessionSize {
  std::int64_t quads = 1, launches = 1;
  std::int64_t sessions = 3;
  double seconds = 0;  // expected, for all sessions
};

// The largest that fits into `allowed` seconds: first enough sessions, then more launches, then more quads. Never less
// than `fewest` sessions of one quad of single launches, even if that does not fit.
// `launch_seconds`: one launch of every shape, averaged over the two arms.
SessionSize fit_sessions(double launch_seconds, double allowed, std::int64_t fewest, std::int64_t most,
                         const record::Protocol& protocol);

// One launch of every shape.
double launch_seconds(const std::vector<record::RooflinePoint>& points);

}  // namespace ridge::campaign
