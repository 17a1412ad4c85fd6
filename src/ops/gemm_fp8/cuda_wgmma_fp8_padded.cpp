// gemm_fp8 on Hopper's matrix units where rows of A, of B or of scales along k do not start on 16 bytes, from copies
// whose rows do (matmul/cuda/padded_call.h). Wins over cuda_simt_fp8 wherever it can run but for sums of a few dozen
// products.
#include "ops/gemm_fp8/cuda_call.h"
#include "ops/matmul/cuda/padded_call.h"

namespace ridge::ops::gemm_fp8 {
namespace {

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  static thread_local PreparedCalls<matmul::PaddedCall> calls;
  const Shape s = shape_of(problem);
  RIDGE_TRY(done, finish_empty_product(operands[s.c_at()], s.bias ? -1 : s.k, s.accumulate, stream));
  if (done) return ok_status();
  RIDGE_TRY(ready, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    return matmul::PaddedCall::prepare(cuda_case(problem, operands), problem, operands, device,
                                       multiprocessors_of(stream, device));
  }));
  return ready->launch(operands, stream);
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  if (Refusal why = wgmma_refuses(matmul::padded(problem), device)) return why;
  return matmul::padding_refuses(before_call(problem), problem, device);
}

}  // namespace

Implementation cuda_wgmma_fp8_padded() {
  Implementation own;
  own.name = "cuda_wgmma_fp8_padded";
  own.summary = "cuda_wgmma_fp8 on copies of the operands and scales whose rows do not start on 16 bytes";
  own.backend = Backend::kCuda;
  own.rank = 5;
  own.supports = supports;
  own.run = run;
  matmul::describe_padded(own, before_call);
  return own;
}

}  // namespace ridge::ops::gemm_fp8
