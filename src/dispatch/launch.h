// The way of every call: one look-up in a table of this thread, then straight to the implementation.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "ops/op.h"
#include "ridge/dispatch.h"

namespace ridge::dispatch {

// Runs the call on the implementation chosen for its case. The choice is made once per case, device and thread, and
// again after force(), unforce(), set_preference() or reload_environment().
Status launch(const ops::Operator& op, const ops::Call& call, const Stream& stream);

// The same for calls of which none reads or writes what another writes; a GPU may run several in one launch. `make`
// makes them by their index, twice each: all are checked and chosen for before the first one runs.
Status launch(const ops::Operator& op, std::size_t count, const std::function<Result<ops::Call>(std::size_t)>& make,
              const Stream& stream);

// The operator a generated entry point belongs to; a missing one is a bug of the build.
const ops::Operator* resolve(std::string_view op);

}  // namespace ridge::dispatch
