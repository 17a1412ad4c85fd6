// Waits for a quiet machine before a request that measures, and says who is loud. Noise costs no validity (a decision
// holds for any), only sessions; so the wait is bounded, and what is measured afterwards is measured all the same.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "execute/executor.h"
#include "execute/neighbours.h"

namespace ridge::execute {

struct QuietOptions {
  double limit = 30;                                 // seconds of waiting, over all requests of this executor
  double max_steal = 0.05, max_foreign_load = 0.10;  // more than this is not quiet
  // One look; replaced by tests.
  std::function<Neighbourhood()> look = [] { return look_around(0.5); };
};

// Time spent looking and waiting is no active time, see Executor::waited().
std::unique_ptr<Executor> make_quiet_executor(std::unique_ptr<Executor> inner, Clock& clock, QuietOptions options);

}  // namespace ridge::execute
