// What the references of matrix products share: every element in fp64, how far a right one may be off, and a secret
// random projection of the whole output (Freivalds' check). Shares no code with any kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"

namespace ridge::ops {

// C [m, n] = A [m, k] B [k, n] (+ old C), summed in fp32 and rounded once.
struct ProductModel {
  std::int64_t m = 0, n = 0, k = 0;
  DType out = DType::kF32;
  bool accumulate = false;
  // Beyond an fp32 sum, what an element may be off by, relative to the sum of magnitudes of its terms and to the root
  // of the sum of their squares; and the root of the expected square of that, relative to the latter.
  double more_allowed = 0, more_allowed_root = 0, more_ideal = 0;
  // The part of that root that is relative to the sum of magnitudes: errors that equal terms share add up.
  double more_ideal_shared = 0;
};

// What the fp32 sum of an element is before anything is done with it: the value, how far it may be off, and the
// expected square of that.
struct ProductSums {
  std::vector<double> value, allowed, square;
};
// `a` and `b` row-major, as op(A) and op(B); `old` the content of C before, empty without `accumulate`.
ProductSums product_sums(const ProductModel& model, const std::vector<double>& a, const std::vector<double>& b,
                         std::vector<double> old);
// The sums rounded to C.
ReferenceOutput product_reference(const ProductModel& model, ProductSums sums);

// `a` and `b` as stored; `old` null without `accumulate`. `label` goes into what is said about a failure.
SpotCheck product_spot_check(const ProductModel& model, const TensorView& a, bool trans_a, const TensorView& b,
                             bool trans_b, const TensorView& c, const TensorView* old, const std::string& label,
                             std::uint64_t seed);

// A stored matrix, or its transpose, in fp64, row-major.
std::vector<double> load_matrix(const TensorView& view, bool transposed);

}  // namespace ridge::ops
