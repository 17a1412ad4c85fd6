// NVIDIA's cuBLASLt with 8-bit operands, a peer to measure against: loaded at run time.
#include "ops/gemm_fp8/cuda_call.h"
#include "ops/matmul/cuda_cublaslt.h"

namespace ridge::ops::gemm_fp8 {
namespace {

namespace peer = matmul::peer;

// Scales along k are multiplied in every 128 of k, so that there is nothing to leave to the matrix unit for longer.
bool along_k(const Shape& s) { return s.scaling == Fp8Scaling::kBlock || s.scaling == Fp8Scaling::kVector; }

peer::PeerCase peer_case(const Shape& s) {
  using peer::Scales;
  constexpr Scales kOfA[] = {Scales::kTensor, Scales::kRow, Scales::kVector, Scales::kVector};
  constexpr Scales kOfB[] = {Scales::kTensor, Scales::kRow, Scales::kBlock, Scales::kVector};
  peer::PeerCase wanted{.trans_a = s.trans_a, .trans_b = s.trans_b, .accumulate = s.accumulate};
  wanted.fast_accumulate = s.sums == Fp8Sums::kFast && !along_k(s);
  wanted.scales_a = kOfA[static_cast<std::size_t>(s.scaling)];
  wanted.scales_b = kOfB[static_cast<std::size_t>(s.scaling)];
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

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  static thread_local PreparedCalls<peer::Matmul> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(operands[s.c_at()], s.bias ? -1 : s.k, s.accumulate, stream));
  if (done) return ok_status();
  RIDGE_CHECK_OK(check_dense(problem, operands));
  RIDGE_TRY(matmul, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    peer::PeerCase wanted = peer_case(s);
    if (stream.multiprocessors != 0) wanted.multiprocessors = multiprocessors_of(stream, device);
    return peer::Matmul::create(problem.problem_case.text(), wanted, operands[kA], operands[kB], operands[s.c_at()],
                                device);
  }));
  return matmul->launch(operands[kA].data, operands[kB].data, operands[s.c_at()].data, operands[kScaleA].data,
                        operands[kScaleB].data, operands.workspace, handle);
}

// Of 8-bit operands and of scales along k it wants every row to start on 16 bytes.
Refusal refuse_memory(const Problem& problem, const Shape& s) {
  if (along_k(s) && s.m % 4 != 0) return fmt::format("m={}: cuBLASLt reads the scales of a step of k in fours", s.m);
  for (const std::size_t operand : std::initializer_list<std::size_t>{kA, kB, s.c_at(), kScaleA, kScaleB}) {
    if ((operand == kScaleA || operand == kScaleB) && !along_k(s)) continue;
    const bool tiles = operand == kScaleB && s.scaling == Fp8Scaling::kBlock;
    if (tiles && (s.k + kScaleBlock - 1) / kScaleBlock % 4 != 0) {
      return fmt::format("k={}: cuBLASLt reads the rows of 128x128 scales in fours", s.k);
    }
    const int alignment = operand_alignment(problem, operand);
    if (alignment >= 16) continue;
    return fmt::format(
        "rows of {} start on multiples of {} bytes; cuBLASLt wants 16 of 8-bit operands and their scales",
        problem.operands[operand].name, alignment);
  }
  return std::nullopt;
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  const Shape s = shape_of(problem);
  if (s.sums == Fp8Sums::kFp32) return "sums=f32: the matrix unit keeps about 14 bits of 8-bit sums";
  if (s.bias) return "bias=1: cuBLASLt multiplies and adds only";
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
  if (Refusal memory = refuse_memory(problem, s)) return memory;
  return peer::why_not_installed();
}

}  // namespace

Implementation cuda_cublaslt_fp8() { return peer::implementation("cuda_cublaslt_fp8", supports, run); }

}  // namespace ridge::ops::gemm_fp8
