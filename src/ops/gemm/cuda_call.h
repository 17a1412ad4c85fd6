// What the CUDA implementations of gemm share: the case in the kernels' words.
#pragma once

#include "base/error.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/gemm/cuda/matrix_calls.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {

// The kernels take B as [n, k]: op(B) transposed. Strides are dense until a call gives them.
inline ridge::cuda::GemmCase cuda_case(const Problem& problem) {
  const Shape s = shape_of(problem);
  ridge::cuda::GemmCase g;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.a_mn_major = s.trans_a;
  g.b_mn_major = !s.trans_b;
  g.type_a = g.type_b = cuda_type(s.dtype);
  g.type_c = cuda_type(s.out);
  g.accumulate = s.accumulate;
  return g;
}

inline ridge::cuda::GemmCase cuda_case(const Problem& problem, std::span<const TensorView> operands) {
  return with_memory(cuda_case(problem), operands[0], operands[1], operands[2]);
}

}  // namespace ridge::ops::gemm
