// Is the output of one call right? Every element against the fp64 reference, or the operator's cheap projection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "evaluate/arena.h"
#include "evaluate/host_process.h"
#include "ops/op.h"
#include "record/measurement.h"

namespace ridge::evaluate {

enum class Depth {
  kQuick,  // spot check, and the full comparison for calls drawn after the fact
  kFull    // full comparison
};

// Adds up over the verified calls of one case.
struct Verification {
  double max_error_ratio = 0, rms_error_ratio = 0, snr_db = 0;
  std::int64_t calls = 0, elements = 0;
};

// All outputs, all elements, NaN and infinities by kind and sign. `error` / `allowed` above 1 anywhere is a Failure
// that names the worst element, what it holds, what was expected and what was allowed.
Result<std::optional<Failure>> verify_fully(const ops::Operator& op, const Operands& operands, Verification& into);

// The operator's spot check with a secret seed; on a suspicion, the full comparison decides what is said about it.
Result<std::optional<Failure>> verify_quickly(const ops::Operator& op, const Operands& operands, std::uint64_t seed,
                                              Verification& into);

}  // namespace ridge::evaluate
