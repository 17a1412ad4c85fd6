// Checks of grouped products on a GPU (grouped_check.cu), for the operators that are made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ops/device_check.h"
#include "ops/op.h"

namespace ridge::ops {

// GroupedCall of grouped_check.cu.
struct CheckedGroups {
  DeviceMatrix a, b, c, old, offsets, scale_a, scale_b;  // old without data: C is overwritten
  DeviceMatrix index;                                    // of the rows of A (gather 1) or of B (2)
  std::int64_t groups = 1, rows = 0;
  std::int64_t m = 0, k = 0;  // m along sums only, k along rows only
  std::int64_t along_sums = 0;
  std::int64_t a_by_terms = 0, b_by_terms = 0;          // whether a row of A, of B, has the elements of one term
  std::int64_t granularity_a = -1, granularity_b = -1;  // Granularity; -1: no codes
  std::int64_t gather = 0, sources = 0;                 // 0: rows lie where they are
  std::int64_t cuts_off = 0;    // whether the matrix unit cuts off what sticks out of sums that are kept in fp32
  std::int64_t unit_terms = 0;  // of codes, after which sums move to fp32
  std::int64_t settles = 0;     // where all numbers within the bound round to one, that one is right
};

// `describe` says what is in device memory; without operands, the sizes alone.
using DescribeGroups = CheckedGroups (*)(const Problem& problem, std::span<const TensorView> operands);
std::shared_ptr<const DeviceCheck> grouped_device_check(DescribeGroups describe);

}  // namespace ridge::ops
