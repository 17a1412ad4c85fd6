// What a check of a case looks at beside the case itself, for a processor and a GPU alike: which shapes it was not
// told, which families of inputs, how many contents that differ in one element. A rig adds how its calls are made, and
// what its device can afford.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/secrets.h"
#include "evaluate/subject.h"
#include "numerics/fill.h"
#include "ops/op.h"

namespace ridge::evaluate {

// What a rig can afford.
struct CheckLimits {
  double cheap_flop = 0;     // of one fp64 reference in a fraction of a second: more work meets fewer contents
  double larger_flop = 0;    // of a held-out shape that is larger than the case
  double larger_bytes = 0;   // of its operands
  std::string larger_words;  // both bounds, for people
};
CheckLimits limits_of_processor();
// `memory_bytes`: of the device.
CheckLimits limits_of_gpu(double memory_bytes);

// A shape that the subject was not told: the first of these cases that it does not refuse. Some refusals show only when
// it is loaded (the needs of a launch plan), so there may be several, the last ones with sizes as aligned as the
// case's.
using HeldOut = std::vector<ops::Problem>;

struct HeldOutShapes {
  std::vector<HeldOut> near;    // a little smaller than the case
  std::vector<HeldOut> larger;  // several times as large in one size each, and small in the others
  std::string bounded;          // the sizes that have no larger shape within the limits, and why; empty: none
};
// All of them follow from `secrets`. None where the operator does not say how to vary a case.
HeldOutShapes held_out_shapes(const Subject& subject, const ops::Operator& op, const ops::Problem& problem,
                              const CheckLimits& limits, const Secrets& secrets);

// Families of inputs that a case meets beside that of timed calls: all but those the operator excuses, or two of them
// where the reference takes long, another one for each `turn`.
std::vector<numerics::Family> families_to_check(const ops::Operator& op, const ops::Problem& problem,
                                                const CheckLimits& limits, std::size_t turn);
// Contents that differ from the one before in a single element at a secret place.
int alterations(const ops::Operator& op, const ops::Problem& problem, const CheckLimits& limits);

}  // namespace ridge::evaluate
