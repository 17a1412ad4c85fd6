// gemm in the words of the kernels of matrix products.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/matmul/operands.h"

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
  g.type_a = g.type_b = matmul::cuda_type(s.dtype);
  g.type_c = matmul::cuda_type(s.out);
  g.accumulate = s.accumulate;
  g.bias = s.bias;
  g.residual = s.residual;
  switch (s.activation) {
    case Activation::kNone: break;
    case Activation::kGelu: g.activation = ridge::cuda::GemmActivation::kGelu; break;
    case Activation::kGeluTanh: g.activation = ridge::cuda::GemmActivation::kGeluTanh; break;
    case Activation::kSilu: g.activation = ridge::cuda::GemmActivation::kSilu; break;
  }
  return g;
}

inline ridge::cuda::GemmCase cuda_case(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  ridge::cuda::GemmCase g = matmul::with_memory(cuda_case(problem), operands[0], operands[1], operands[s.c_at()]);
  for (std::size_t extra = 2; extra < s.c_at(); ++extra) {
    g.base_alignment_extra = std::min(g.base_alignment_extra, view_alignment(operands[extra]));
  }
  if (s.residual) g.ld_residual = matmul::row_stride(operands[s.residual_at()]);
  return g;
}

}  // namespace ridge::ops::gemm
