// Measuring a case before its first run, where a program or its environment asks for it.
#pragma once

#include "ops/op.h"
#include "ridge/dispatch.h"

namespace ridge::dispatch {

// Does nothing unless it is asked for (autotune(), RIDGE_AUTOTUNE=1, RIDGE_<OP>_BACKEND=autotune), or where code,
// environment or a tuned table decides, or while a graph is being recorded on the stream. A case that cannot be tuned
// is said through on_fallback() once and keeps the default order.
void tune_if_asked(const ops::Operator& op, const ops::Problem& problem, const Stream& stream);

// Forgets what this process measured, and has RIDGE_AUTOTUNE and the tuned tables read again.
void forget_measured();

}  // namespace ridge::dispatch
