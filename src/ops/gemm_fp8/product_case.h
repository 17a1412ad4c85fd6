// gemm_fp8 in the words of the kernels of matrix products.
#pragma once

#include "ops/gemm_fp8/gemm_fp8.h"
#include "ops/matmul/operands.h"

namespace ridge::ops::gemm_fp8 {

// The kernels take B as [n, k]: op(B) transposed. Strides are dense until a call gives them.
inline ridge::cuda::GemmCase cuda_case(const Problem& problem) {
  using ridge::cuda::GemmScaling;
  constexpr GemmScaling kScalings[] = {GemmScaling::kTensor, GemmScaling::kRow, GemmScaling::kBlock,
                                       GemmScaling::kVector, GemmScaling::kMx};
  const Shape s = shape_of(problem);
  ridge::cuda::GemmCase g;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.a_mn_major = s.trans_a;
  g.b_mn_major = !s.trans_b;
  g.type_a = matmul::cuda_type(s.formats.a);
  g.type_b = matmul::cuda_type(s.formats.b);
  g.type_c = matmul::cuda_type(s.out);
  g.accumulate = s.accumulate;
  g.bias = s.bias;
  g.scaling = kScalings[static_cast<std::size_t>(s.scaling)];
  g.promote = s.sums == Fp8Sums::kPromoted;
  return g;
}

inline ridge::cuda::GemmCase cuda_case(const Problem& problem, std::span<const TensorView> operands) {
  const auto stride = [](const TensorView& scale) { return scale.rank > 1 ? scale.stride[0] : 0; };
  const Shape s = shape_of(problem);
  ridge::cuda::GemmCase g = matmul::with_memory(cuda_case(problem), operands[kA], operands[kB], operands[s.c_at()]);
  if (s.bias) g.base_alignment_extra = std::min(g.base_alignment_extra, view_alignment(operands[s.bias_at()]));
  g.scale_stride_a = stride(operands[kScaleA]);
  g.scale_stride_b = stride(operands[kScaleB]);
  g.alignment_scale_a = view_alignment(operands[kScaleA]);
  g.alignment_scale_b = view_alignment(operands[kScaleB]);
  return g;
}

}  // namespace ridge::ops::gemm_fp8
