// What the references of matrix products share: every element in fp64, how far a right one may be off, and a secret
// random projection of the whole output (Freivalds' check). Shares no code with any kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"

namespace ridge::ops {

// C [m, n] = A [m, k] B [k, n] (+ old C), summed in fp32, or by the matrix unit, and rounded once.
struct ProductModel {
  std::int64_t m = 0, n = 0, k = 0;
  DType out = DType::kF32;
  bool accumulate = false;
  // Relative to the sum of magnitudes of its terms, what an element may be off by beyond an fp32 sum, and the root of
  // the expected square of the errors that equal terms share, which add up.
  double more_allowed = 0, more_ideal_shared = 0;
  // Terms that Hopper's matrix unit adds up before their sum moves to fp32 (ops/matmul/matrix_unit.h); 0: fp32
  // throughout.
  std::int64_t matrix_unit_terms = 0;
  // By what it aligns the elements of op(A) and op(B); empty: by their magnitudes.
  std::vector<double> weight_a, weight_b;
};

// What the fp32 sum of an element is before anything is done with it: the value, how far it may be off, the expected
// square of that, and what of it may have one direction everywhere.
struct ProductSums {
  std::vector<double> value, allowed, square, shift;
};
// `a` and `b` row-major, as op(A) and op(B); `old` the content of C before, empty without `accumulate`.
ProductSums product_sums(const ProductModel& model, const std::vector<double>& a, const std::vector<double>& b,
                         std::vector<double> old);
// The sums rounded to C.
ReferenceOutput product_reference(const ProductModel& model, ProductSums sums);

// Appends the elements of one product to those of the products before it.
void append(const ReferenceOutput& part, ReferenceOutput& all);

// `a` and `b` as stored; `old` null without `accumulate`. `label` goes into what is said about a failure.
SpotCheck product_spot_check(const ProductModel& model, const TensorView& a, bool trans_a, const TensorView& b,
                             bool trans_b, const TensorView& c, const TensorView* old, const std::string& label,
                             std::uint64_t seed);

// [rows, cols] to [cols, rows].
std::vector<double> transposed_copy(const std::vector<double>& x, std::int64_t rows, std::int64_t cols);
// A stored matrix, or its transpose, in fp64, row-major.
std::vector<double> load_matrix(const TensorView& view, bool transposed);

}  // namespace ridge::ops
