// How large the sessions of fixed-size measurements (calibration, final) may be, so that they fit their share of the
// budget. The confirmation sessions of a round are planned by the worker, from what its screening session saw.
#pragma once

#include <cstdint>
#include <vector>

#include "campaign/state.h"
#include "record/journal.h"
#include "record/measurement.h"

namespace ridge::campaign {

// What a session costs: the overhead of its processes, buffers and guards, and for every launch its own time and that
// of fresh inputs and verification. `fixed` comes before the first one. The defaults are a processor's, for what was
// not measured: a GPU's launches take milliseconds and their verification as long, its contexts most of a second.
struct SessionCost {
  double overhead = 0.3;       // seconds
  double launch_factor = 1.6;  // times the launch
  double fixed = 0;            // seconds: build, check, and the worker's start
};
// From the short look at the baseline: one session of one quad of single launches.
SessionCost cost_of_look(const record::Evaluation& look);
// From that look and the sessions of its calibration.
SessionCost measured_cost(const record::Baseline& baseline);

struct SessionSize {
  std::int64_t quads = 1, launches = 1;
  std::int64_t sessions = 3;
  double seconds = 0;  // expected, for all sessions and what comes before them
};

// The largest that fits into `allowed` seconds: first enough sessions, then more launches, then more quads. Never less
// than `fewest` sessions of one quad of single launches, even if that does not fit.
// `launch_seconds`: one launch of every shape, averaged over the two arms.
SessionSize fit_sessions(double launch_seconds, double allowed, std::int64_t fewest, std::int64_t most,
                         const record::Protocol& protocol, const SessionCost& cost = {});

// Of best against baseline at the end, in at most `allowed` seconds. Nothing before the baseline is measured.
SessionSize size_of_final(const State& state, double allowed);
// The share of the wall budget that may go into it, in seconds.
double seconds_of_final(const State& state);

}  // namespace ridge::campaign
