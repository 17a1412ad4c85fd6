// When a campaign ends. T1 performance_target reached; T2 hardware efficiency reached (fraction of the measured
// ceiling); T3 max_iterations; T4 the user's stop; T5 a budget is used up (wall time, or the error budget's decisions).
// Beside these the proposer may have nothing left to try. Rollbacks and stagnation never end a campaign.
#pragma once

#include "campaign/state.h"

namespace ridge::campaign {

struct TerminationInput {
  bool stop_requested = false;
  double active = 0;   // seconds of active campaign time
  double reserve = 0;  // seconds kept for the final measurement and the report
};

// Every condition with its values, and the first that holds ("none" if none does). Pure.
record::Termination check_termination(const State& state, const TerminationInput& input);

// Seconds of the wall budget left for rounds; infinity without a budget.
double seconds_left(const State& state, const TerminationInput& input);

}  // namespace ridge::campaign
