// The numbers by which kernels of matrix products describe a case in their launch plans, needs and defines:
//
//   m n k                        sizes
//   type_a type_b type_c         0 bf16, 1 f16, 2 f32, 3 e4m3, 4 e5m2, 5 tf32; size_a, size_c: bytes of an element
//   a_mn_major b_mn_major        1 where M or N is contiguous, not K
//   accumulate promote bias residual activation     as GemmCase has them; scales: 0 none, 1 tensor, 2 row, 3 block,
//                                                   4 vector, 5 mx
//   row_a row_b row_c row_residual                  strides of rows, elements
//   align_ab align_c align_extra                    what addresses are multiples of, bytes
//   scale_stride_a scale_stride_b                   strides of the scales, elements; 0 where they have none
//   align_scale_a align_scale_b                     what rows of the scales are multiples of, bytes
//   batch                                           matrices; the kernels take one
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ops/matmul/case.h"

namespace ridge::ops::matmul {

using Values = std::map<std::string, std::int64_t>;

// A `batch` that is there stays.
void add_values(const ridge::cuda::GemmCase& g, Values& values);

}  // namespace ridge::ops::matmul
