// The library's own gemm for Hopper: matmul/cuda_wgmma.cu, built for the configuration that its cost
// model picks. Wins on everything from a few tiles up whose rows start on 16 bytes; of other
// operands cuda_wgmma_padded makes copies first.
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
  if (s.residual) {
    const int alignment = operand_alignment(problem, s.residual_at());
    g.ld_residual = matmul::padded_row(s.n, s.out, alignment);
    g.base_alignment_extra = std::min(g.base_alignment_extra, alignment);
  }
  return {g, s.c_at()};
}

Refusal wgmma_refuses(const Problem& problem, const DeviceInfo& device) {
  if (Refusal why = matmul::no_wgmma(device)) return why;
  if (shape_of(problem).dtype == DType::kF32) {
    return "dtype=f32: the matrix unit has no fp32, and TF32 is never chosen silently";
  }
  const Shape s = shape_of(problem);
  if (s.k == 0 && s.epilogue()) return "k=0: an epilogue of nothing is not worth a matrix unit";
  return matmul::wgmma_refuses(before_call(problem), problem);
}

Implementation cuda_wgmma() {
  Implementation own;
  own.name = "cuda_wgmma";
  own.summary = "own kernels on Hopper's matrix units, fed by its copy engine; compiled at run time";
  own.backend = Backend::kCuda;
  own.rank = 0;
  own.supports = wgmma_refuses;
  own.run = per_matrix(run);
  matmul::describe_wgmma(own, before_call);
  return own;
}

}  // namespace ridge::ops::gemm
