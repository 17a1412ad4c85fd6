// Measuring a case before its first run, where a program asks for it with autotune().
#pragma once

#include "ops/op.h"
#include "ridge/dispatch.h"

namespace ridge::dispatch {

// Does nothing unless autotune() is on, the stream is a CPU's, and neither code, environment nor a tuned table decides.
// A case that cannot be tuned is said through on_fallback() once and keeps the default order.
void tune_if_asked(const ops::Operator& op, const ops::Problem& problem, const Stream& stream);

}  // namespace ridge::dispatch
