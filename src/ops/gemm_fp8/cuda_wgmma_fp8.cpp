// The 8-bit builds of gemm's kernel for Hopper (matmul/cuda_wgmma.cu): scales of a tensor or a row in the epilogue,
// scales along k while promoting every 128 of k to fp32. Wins wherever it can run; what the matrix unit cannot read (k
// not contiguous), MX scales and sums that must be fp32 throughout go to cuda_simt_fp8.
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
    return matmul::wgmma_call(cuda_case(problem, operands), plan_operands(problem, operands),
                              problem.problem_case.text(), device, multiprocessors_of(stream, device),
                              problem.configuration);
  }));
  return ready->launch(operands, handle);
}

}  // namespace

matmul::BeforeCall before_call(const Problem& problem) {
  const Shape s = shape_of(problem);
  ridge::cuda::GemmCase g = cuda_case(problem);
  if (s.bias) g.base_alignment_extra = std::min(g.base_alignment_extra, operand_alignment(problem, s.bias_at()));
  return {g, s.c_at()};
}

Refusal wgmma_refuses(const Problem& problem, const DeviceInfo& device) {
  if (Refusal why = matmul::no_wgmma(device)) return why;
  const Shape s = shape_of(problem);
  if (s.sums == Fp8Sums::kFp32) return "sums=f32: the matrix unit keeps about 14 bits of 8-bit sums";
  if (s.k == 0 && s.bias) return "k=0: a bias alone is not worth a matrix unit";
  return matmul::wgmma_refuses(before_call(problem), problem);
}

Implementation cuda_wgmma_fp8() {
  Implementation own;
  own.name = "cuda_wgmma_fp8";
  own.summary = "own kernels on Hopper's matrix units, fed by its copy engine; compiled at run time";
  own.backend = Backend::kCuda;
  own.rank = 0;
  own.supports = wgmma_refuses;
  own.run = run;
  matmul::describe_wgmma(own, before_call);
  return own;
}

}  // namespace ridge::ops::gemm_fp8
