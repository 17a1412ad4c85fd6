// The sanitizer lane of CUDA candidates: one call on a small problem under each tool of compute-sanitizer, in a worker
// of its own. What no value shows for certain (a race, a read of memory that was never written) shows here.
#pragma once

#include "evaluate/tasks.h"

namespace ridge::evaluate {

// Changes the row when a tool found something; otherwise says in its lanes what was looked at, or why it was not.
void sanitizer_lane(const Job& job, const Subject& subject, const ops::Operator& op, const ops::Problem& problem,
                    record::CheckRow& row);

}  // namespace ridge::evaluate
