// What the CUDA implementations of gemm_fp8 share: the case and the scales in the kernels' words.
#pragma once

#include "base/error.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/gemm/cuda/matrix_calls.h"
#include "ops/gemm_fp8/gemm_fp8.h"

namespace ridge::ops::gemm_fp8 {

namespace gpu = device::cuda;

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
  g.type_a = gemm::cuda_type(s.formats.a);
  g.type_b = gemm::cuda_type(s.formats.b);
  g.type_c = gemm::cuda_type(s.out);
  g.accumulate = s.accumulate;
  g.scaling = kScalings[static_cast<std::size_t>(s.scaling)];
  g.promote = s.sums == Fp8Sums::kPromoted;
  return g;
}

inline ridge::cuda::GemmCase cuda_case(const Problem& problem, std::span<const TensorView> operands) {
  return gemm::with_memory(cuda_case(problem), operands[kA], operands[kB], operands[kC]);
}

inline gemm::ScaleParameter scale_parameter(std::span<const TensorView> operands) {
  const auto stride = [](const TensorView& scale) { return scale.rank > 1 ? scale.stride[0] : 0; };
  return {operands[kScaleA].data, operands[kScaleB].data, stride(operands[kScaleA]), stride(operands[kScaleB])};
}

}  // namespace ridge::ops::gemm_fp8
