// NVIDIA's cuBLASLt with 8-bit operands, a peer to measure against: loaded at run time.
#include "ops/gemm_fp8/cuda_call.h"

#if __has_include(<cublasLt.h>)
#include "ops/gemm/cuda_cublaslt.h"

namespace ridge::ops::gemm_fp8 {
namespace {

namespace peer = gemm::peer;

peer::PeerCase peer_case(const Shape& s) {
  peer::PeerCase wanted{.trans_a = s.trans_a, .trans_b = s.trans_b, .accumulate = s.accumulate};
  wanted.fast_accumulate = s.sums == Fp8Sums::kFast;
  switch (s.scaling) {
    case Fp8Scaling::kRow:
      wanted.scale_mode_a = wanted.scale_mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
      break;
    case Fp8Scaling::kBlock:
      wanted.scale_mode_a = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
      wanted.scale_mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
      break;
    case Fp8Scaling::kVector:
      wanted.scale_mode_a = wanted.scale_mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
      break;
    default: break;
  }
  return wanted;
}

// The library has no parameter for the distance between rows of scales.
Status check_dense(const Problem& problem, std::span<const TensorView> operands) {
  for (const Operand scale : {kScaleA, kScaleB}) {
    const TensorView& view = operands[scale];
    if (view.rank < 2 || view.shape[0] < 2 || view.stride[0] == view.shape[1]) continue;
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: cuBLASLt reads {} {} without padding between its rows",
                                problem.problem_case.text(), problem.operands[scale].name, view.describe()),
                     "copy the scales to dense rows, or use cuda_wgmma_fp8 or cuda_simt_fp8");
  }
  return ok_status();
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<peer::Matmul> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(operands[kC], s.k, s.accumulate, handle));
  if (done) return ok_status();
  RIDGE_CHECK_OK(check_dense(problem, operands));
  RIDGE_TRY(matmul, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    return peer::Matmul::create(problem.problem_case.text(), peer_case(s), operands[kA], operands[kB], operands[kC],
                                device);
  }));
  return matmul->launch(operands[kA].data, operands[kB].data, operands[kC].data, operands[kScaleA].data,
                        operands[kScaleB].data, handle);
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  const Shape s = shape_of(problem);
  if (s.sums == Fp8Sums::kFp32) return "sums=f32: the matrix unit keeps about 14 bits of 8-bit sums";
  if (s.trans_a || !s.trans_b) {
    return fmt::format("layout={}: cuBLASLt multiplies 8-bit operands in layout nt only",
                       problem.problem_case.get("layout"));
  }
  if (s.scaling == Fp8Scaling::kMx) return "scaling=mx: cuBLASLt has MX scales from Blackwell on";
  if (s.formats.a == DType::kE5m2 && s.formats.b == DType::kE5m2) {
    return "dtype=e5m2: cuBLASLt wants e4m3fn for one operand at least";
  }
  if (s.n % 16 != 0 || s.k % 16 != 0) {
    return fmt::format("n={} k={}: cuBLASLt wants multiples of 16 of 8-bit operands", s.n, s.k);
  }
  if (s.accumulate && s.out != DType::kF32) {
    return fmt::format("accumulate=1 out={}: cuBLASLt rounds before it adds", to_string(s.out));
  }
  return peer::why_not_installed();
}

Implementation describe_peer() {
  Implementation described;
  described.supports = supports;
  described.run = run;
  described.version = peer::version;
  return described;
}

}  // namespace
}  // namespace ridge::ops::gemm_fp8

#else

namespace ridge::ops::gemm_fp8 {
namespace {

Implementation describe_peer() {
  Implementation described;
  described.supports = [](const Problem&, const DeviceInfo&) -> Refusal {
    return "built without the headers of cuBLASLt";
  };
  described.run = [](const Problem&, std::span<const TensorView>, const Stream&) -> Status {
    return make_error(ErrorCode::kUnsupported, "built without the headers of cuBLASLt");
  };
  return described;
}

}  // namespace
}  // namespace ridge::ops::gemm_fp8

#endif

namespace ridge::ops::gemm_fp8 {

Implementation cuda_cublaslt_fp8() {
  Implementation peer = describe_peer();
  peer.name = "cuda_cublaslt_fp8";
  peer.summary = "NVIDIA's cuBLASLt, loaded at run time";
  peer.backend = Backend::kCuda;
  peer.rank = 10;
  peer.vendor = true;
  return peer;
}

}  // namespace ridge::ops::gemm_fp8
