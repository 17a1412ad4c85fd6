// Measuring which implementation is fastest, on scratch memory, for a tuned table.
#pragma once

#include "ops/op.h"
#include "record/tuned.h"

namespace ridge::dispatch {

struct TuneOptions {
  std::int64_t rounds = 15;  // of two calls of every implementation, interleaved
  double seconds = 2;        // and not longer
  double margin = 0.03;      // what another one than the default order's first must gain
};

// Probes every implementation that can run the case, interleaves those that are right, and names the fastest; unless it
// beats the default order's first by the margin (median of the rounds' paired ratios), that one. The reference takes
// part only where it is alone. Never touches a caller's memory. kUnsupported on a GPU, whose calls need its own clock:
// the worker's task `tune` measures there.
Result<record::TunedChoice> tune(const ops::Operator& op, const ops::Problem& problem, const Stream& stream,
                                 const TuneOptions& options = {});

}  // namespace ridge::dispatch
