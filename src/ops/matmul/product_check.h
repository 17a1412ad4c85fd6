// Checks of matrix products on a GPU (product_check.cu), for the operators that are made of them.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/device_check.h"
#include "ops/matmul/product.h"

namespace ridge::ops {

// One product of matrices in device memory, and how wrong it may be.
struct CheckedProduct {
  ProductModel model;
  // What the matrix unit may cut off, relative to |s| + sqrt(Q); of 8-bit sums the reference finds it from the data.
  double truncated = 0;
  bool settles = false;  // 16-bit C: where all numbers within the bound round to one, that one is right
  bool trans_a = false, trans_b = false;
  std::int64_t activation = 0;                          // Activation
  std::int64_t granularity_a = -1, granularity_b = -1;  // Granularity; -1: no scales
  DeviceMatrix a, b, c;
  DeviceMatrix scale_a, scale_b, bias, residual, old;  // without data: none
};

// The vectors of a projection: signs, and ones that squares are summed by.
inline constexpr std::int64_t kProjectionVectors = 5;
CheckLaunch sign_vectors(double* to, std::int64_t count, std::uint64_t seed);
// How much of a sum of `length` terms a block takes, of which there are `lines`: enough blocks for every
// multiprocessor, long enough runs that the sums at their ends do not matter.
std::int64_t terms_per_block(std::int64_t lines, std::int64_t length);

// Bytes of zeros that a projection of m x n x k needs.
std::size_t product_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k);
std::vector<CheckLaunch> product_projection(const CheckedProduct& product, std::uint64_t seed, void* scratch,
                                            void* result);
// Rows first .. first + count; the arrays begin at the first of them.
struct ReferenceRows {
  std::int64_t first = 0, count = 0;
  double *value = nullptr, *allowed = nullptr, *variance = nullptr, *shift = nullptr;
};
std::vector<CheckLaunch> product_rows_of_reference(const CheckedProduct& product, const ReferenceRows& rows);

}  // namespace ridge::ops
