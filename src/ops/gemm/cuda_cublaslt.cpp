// NVIDIA's cuBLASLt, a peer to measure against, and what runs f32 fastest: loaded at run time.
#include "ops/matmul/cuda_cublaslt.h"

#include "ops/gemm/cuda_call.h"

namespace ridge::ops::gemm {
namespace {

namespace peer = matmul::peer;

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  static thread_local PreparedCalls<peer::Matmul> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(operands[2], s.k, s.accumulate, stream));
  if (done) return ok_status();
  peer::PeerCase wanted{.trans_a = s.trans_a, .trans_b = s.trans_b, .accumulate = s.accumulate};
  RIDGE_TRY(matmul, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    if (stream.multiprocessors != 0) wanted.multiprocessors = multiprocessors_of(stream, device);
    return peer::Matmul::create(problem.problem_case.text(), wanted, operands[0], operands[1], operands[2], device);
  }));
  return matmul->launch(operands[0].data, operands[1].data, operands[2].data, nullptr, nullptr, operands.workspace,
                        handle);
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  const Shape s = shape_of(problem);
  if (Refusal refusal = refuse_epilogue(s, "cuBLASLt")) return refusal;
  // Measured: with a 16-bit C it rounds the product before it adds, up to 45 times the error our contract allows.
  if (s.accumulate && s.out != DType::kF32) {
    return fmt::format("accumulate=1 out={}: cuBLASLt rounds before it adds", to_string(s.out));
  }
  return peer::why_not_installed();
}

}  // namespace

Implementation cuda_cublaslt() { return peer::implementation("cuda_cublaslt", supports, per_matrix(run)); }

}  // namespace ridge::ops::gemm
