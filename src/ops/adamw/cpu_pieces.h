// A step on a processor, in pieces of 1024 numbers that stay in the first-level cache between the conversions to and
// from fp32.
#pragma once

#include <cstdint>

#include "ops/adamw/adamw.h"
#include "ops/adamw/simd/pieces.h"

namespace ridge::ops::adamw {

class Stepper {
 public:
  Stepper(const Problem& problem, const Arguments& arguments, const Form& form);
  // Whether `skip` says that nothing changes.
  [[nodiscard]] bool skips() const { return skips_; }
  // What the step changes: the master where there is one, else the parameter.
  [[nodiscard]] const TensorView& weights() const { return master_.rank != 0 ? master_ : param_; }
  // Steps elements first .. first + count of a row, at most kPiece; tensors of rank 1 are one row.
  void step(std::int64_t row, std::int64_t first, std::int64_t count) const;

 private:
  Factors factors_;
  bool skips_;
  TensorView grad_, param_, exp_avg_, exp_avg_sq_, master_;
  Step step_ = best_step();
};

}  // namespace ridge::ops::adamw
