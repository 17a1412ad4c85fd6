// How far a result is from its reference: every figure from one pass, in fp64.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ridge/dtype.h"

namespace ridge::numerics {

// Elements where both are the same NaN-ness or the same infinity agree and enter no sum. Where they differ they are
// counted by kind and enter no sum either: no figure below can look good because of them, look at `mismatches()`.
struct Comparison {
  std::int64_t count = 0;         // elements compared
  std::int64_t finite_count = 0;  // both finite: what the sums are about

  double max_abs_error = 0;
  std::int64_t max_abs_index = -1;
  double max_relative_error = 0;  // |x - ref| / |ref| where ref != 0
  std::int64_t max_relative_index = -1;
  double max_ulp_error = 0;  // |x - ref| / ulp(dtype, ref): 0.5 is a correctly rounded result
  std::int64_t max_ulp_index = -1;

  double rms_error = 0;
  double rms_reference = 0;
  double snr_db = 0;          // 10 log10(sum ref^2 / sum (ref - x)^2); +inf when equal, -inf against a zero reference
  double relative_error = 0;  // ||x - ref|| / ||ref||, the Frobenius norm; 0 when equal
  double cosine = 1;          // <x, ref> / (||x|| ||ref||); 1 when both are zero, 0 when one is
  double bias = 0;            // mean of sign(ref) (x - ref): negative when results are pulled to zero (truncation)

  // Only with per-element limits: the largest |x - ref| / allowed; above 1 the result is wrong.
  double max_error_ratio = 0;
  std::int64_t max_ratio_index = -1;

  std::int64_t nan_unexpected = 0;  // NaN where the reference is a number or infinite
  std::int64_t nan_missing = 0;     // a number or infinity where the reference is NaN
  std::int64_t inf_unexpected = 0;  // infinite where the reference is finite
  std::int64_t inf_missing = 0;     // finite where the reference is infinite
  std::int64_t inf_wrong_sign = 0;
  std::int64_t first_mismatch = -1;  // index of the first of these

  [[nodiscard]] std::int64_t mismatches() const {
    return nan_unexpected + nan_missing + inf_unexpected + inf_missing + inf_wrong_sign;
  }
  // "2 NaN unexpected, 1 Inf of the wrong sign, first at 17"; empty without mismatches.
  [[nodiscard]] std::string describe_mismatches() const;
};

// `reference` and `values` have the same length; `dtype` is the type the values were stored in. `allowed`, when given,
// has one limit per element; an error of 0 is always allowed, and a NaN limit allows nothing.
Comparison compare(std::span<const double> reference, std::span<const double> values, DType dtype,
                   std::span<const double> allowed = {});

// How many steps of the format lie between a and b after rounding both to it: 0 when they become equal (+0 and -0
// too), 1 for neighbours, also across zero and subnormals. Negative when either is NaN.
std::int64_t ulp_distance(DType dtype, double a, double b);

}  // namespace ridge::numerics
