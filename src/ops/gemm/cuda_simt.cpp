// Plain fp32 multiply-adds on the GPU (matmul/cuda_simt.cu): any shape, stride and alignment. Wins nowhere but where
// nothing else can run.
#include "ops/gemm/cuda_call.h"

namespace ridge::ops::gemm {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<PlannedCall> calls;
  const Shape s = shape_of(problem);
  const TensorView& c = operands[s.c_at()];
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(c, s.epilogue() ? -1 : s.k, s.accumulate, stream));
  if (done) return ok_status();
  RIDGE_TRY(ready, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    return matmul::simt_call(cuda_case(problem, operands), plan_operands(problem, operands), device);
  }));
  return ready->launch(operands, handle);
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  return matmul::simt_refuses(cuda_case(problem), device);
}

}  // namespace

Implementation cuda_simt() {
  Implementation plain;
  plain.name = "cuda_simt";
  plain.summary = "fp32 multiply-adds, one element at a time: any stride and alignment";
  plain.backend = Backend::kCuda;
  plain.rank = 20;
  plain.supports = supports;
  plain.run = per_matrix(run);
  plain.kernels = [](const Problem& problem, const DeviceInfo&) { return matmul::simt_kernels(cuda_case(problem)); };
  return plain;
}

}  // namespace ridge::ops::gemm
