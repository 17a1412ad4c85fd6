// NVIDIA's cuBLASLt, a peer to measure against, and what runs f32 fastest: loaded at run time.
#include "ops/gemm/cuda_call.h"

#if __has_include(<cublasLt.h>)
#include "ops/gemm/cuda_cublaslt.h"

namespace ridge::ops::gemm {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<peer::Matmul> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(operands[2], s.k, s.accumulate, handle));
  if (done) return ok_status();
  const peer::PeerCase wanted{.trans_a = s.trans_a, .trans_b = s.trans_b, .accumulate = s.accumulate};
  RIDGE_TRY(matmul, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    return peer::Matmul::create(problem.problem_case.text(), wanted, operands[0], operands[1], operands[2], device);
  }));
  return matmul->launch(operands[0].data, operands[1].data, operands[2].data, nullptr, nullptr, handle);
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

Implementation describe_peer() {
  Implementation described;
  described.supports = supports;
  described.run = per_matrix(run);
  described.version = peer::version;
  return described;
}

}  // namespace
}  // namespace ridge::ops::gemm

#else

namespace ridge::ops::gemm {
namespace {

Implementation describe_peer() {
  Implementation peer;
  peer.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return "built without the headers of cuBLASLt"; };
  peer.run = [](const Problem&, std::span<const TensorView>, const Stream&) -> Status {
    return make_error(ErrorCode::kUnsupported, "built without the headers of cuBLASLt");
  };
  return peer;
}

}  // namespace
}  // namespace ridge::ops::gemm

#endif

namespace ridge::ops::gemm {

Implementation cuda_cublaslt() {
  Implementation peer = describe_peer();
  peer.name = "cuda_cublaslt";
  peer.summary = "NVIDIA's cuBLASLt, loaded at run time";
  peer.backend = Backend::kCuda;
  peer.rank = 10;
  peer.vendor = true;
  return peer;
}

}  // namespace ridge::ops::gemm
