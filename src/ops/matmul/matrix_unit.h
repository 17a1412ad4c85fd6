// How much Hopper's matrix unit may lose of sums of 8-bit products, from the data.
//
// The unit adds up in steps of 32 along k. It aligns the 32 products and the partial sum to the largest of these
// addends and cuts off, towards zero, what lies below 2^-13 of it: each addend of step s loses less than
//   u_s = 2^-13 max(|partial sum|, largest |product|)
// where a subnormal operand counts as the smallest normal one, because the unit aligns by the fields of exponents. It
// errs to the side opposite its sign. With d_s the sum of the signs of the 32 products, a correct sum is off by at most
//   C + 10 sqrt(V)    with C = sum_s u_s d_s^2 / 32    V = sum_s u_s^2
// C is for terms that are alike: 32 equal ones lose the same, in one direction, step after step, which adds up (32 u_s,
// all there is to lose). Of terms of random sign d_s^2 is 32 in the mean, so that C stays small beside what is lost
// at random, sqrt(V) times 1.7 (33 losses, uniform between 0 and u_s) or less. The ideal kernel's expected square is
//   L^2 + 3/2 V + C^2 / (8 steps)    with L = 0.36 sum_s u_s d_s
// a loss being half a unit of the last place kept in the mean, which is 0.72 u_s in the mean over mantissas; C^2 /
// steps because equal terms do not lose half a unit in the mean but all the same. Partial sums start afresh every
// `matrix_unit_terms` of k, where sums move to fp32. Since kernels may split k, |partial sum| is the largest difference
// between any two sums so far. tests/ops/matrix_unit_test.cpp holds an emulation of the unit against this, and kernels
// that do less than they say.
#pragma once

#include <vector>

#include "ops/matmul/product.h"

namespace ridge::ops {

struct Truncation {
  std::vector<double> allowed, square, shift;  // of every element of C, row by row; shift is |L|
};
// `a` and `b` as product_sums has them.
Truncation matrix_unit_truncation(const ProductModel& model, const std::vector<double>& a,
                                  const std::vector<double>& b);

// Where single elements are not known: what to expect of terms of random sign, relative to the sum of magnitudes and to
// the root of the sum of squares. Ten ideal kernels are within the former two; the last is the root of its square.
struct ExpectedTruncation {
  double allowed = 0, allowed_root = 0, ideal = 0;
};
ExpectedTruncation expected_truncation(const ProductModel& model);

}  // namespace ridge::ops
