// Is an output right? A pure function of the values found and the operator's reference; where the values come from, a
// process or a device, does not matter.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "evaluate/defences.h"
#include "numerics/bias.h"
#include "ops/op.h"

namespace ridge::evaluate {

struct Judgement {
  // The first line that refuses the output, of kNonfinite, kElementBound, kRms, kBias; kNone when it is right.
  record::Defence gate = record::Defence::kNone;
  double error_ratio = 0;      // largest |error| / allowed; infinite where NaN or Inf differ in kind or sign
  double rms_ratio = 0;        // RMS of errors, each over that of the ideal kernel at its element
  double rms_limit = 0;        // for so many elements
  numerics::BiasVerdict bias;  // do errors lean to one side, in the same unit
  double snr_db = 300;
  std::int64_t worst = -1;            // element of error_ratio
  std::int64_t wrong = 0, count = 0;  // elements beyond their bound, and all

  [[nodiscard]] bool right() const { return gate == record::Defence::kNone; }
};

// `dtype` is the output's. Infinite is right where a value within the bound rounds to that infinity.
Judgement judge(std::span<const double> found, const ops::ReferenceOutput& reference, DType dtype,
                const Defences& defences = {});

// What a kernel that computes nothing could write: zeros, the best constant, an input as it is, the output of the call
// before. The first of them that would pass, or comes within four times of the limits, in words; empty when all fail,
// as they must for the case to show anything. `operands` are those of before the call, `previous` may be empty.
std::string trivial_predictor(const ops::Problem& problem, std::span<const TensorView> operands, std::size_t output,
                              const ops::ReferenceOutput& reference, std::span<const double> previous);

}  // namespace ridge::evaluate
