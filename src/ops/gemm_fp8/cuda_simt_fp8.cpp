// gemm's plain kernel (matmul/cuda_simt.cu) with 8-bit operands: every layout, alignment and granularity, sums in fp32.
// Wins nowhere but where nothing else can run.
#include "ops/gemm_fp8/cuda_call.h"

namespace ridge::ops::gemm_fp8 {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<PlannedCall> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(operands[s.c_at()], s.bias ? -1 : s.k, s.accumulate, stream));
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

Implementation cuda_simt_fp8() {
  Implementation plain;
  plain.name = "cuda_simt_fp8";
  plain.summary = "fp32 multiply-adds, one element at a time: any stride, alignment and scales";
  plain.backend = Backend::kCuda;
  plain.rank = 20;
  plain.supports = supports;
  plain.run = run;
  plain.kernels = [](const Problem& problem, const DeviceInfo&) { return matmul::simt_kernels(cuda_case(problem)); };
  return plain;
}

}  // namespace ridge::ops::gemm_fp8
