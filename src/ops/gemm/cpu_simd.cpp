// The library's own gemm for CPUs: register tiles of broadcast-and-FMA over packed panels, in the widest instruction
// set the processor has; bf16 and f16 are widened to fp32 while they are packed, because their own dot products run at
// half the rate of fp32 FMA where there is no matrix unit. Wins from a few tiles up; a matrix-vector product (m or n
// of 1) is bound by memory and leaves most of each tile empty.
#include "base/error.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/simd/driver.h"

namespace ridge::ops::gemm {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  simd::Arguments g;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.dtype = s.dtype;
  g.out = s.out;
  g.a = operands[0].data;
  g.a_stride = operands[0].stride[0];
  g.trans_a = s.trans_a;
  g.b = operands[1].data;
  g.b_stride = operands[1].stride[0];
  g.trans_b = s.trans_b;
  g.c = operands[2].data;
  g.c_stride = operands[2].stride[0];
  g.accumulate = s.accumulate;
  if (!simd::run(simd::best_kernels(), g, stream.threads)) {
    return with_hint(make_error(ErrorCode::kIo, "{}: no memory for packing", problem.problem_case.text()),
                     "use a smaller problem or fewer threads");
  }
  return ok_status();
}

}  // namespace

Implementation cpu_simd() {
  Implementation simd;
  simd.name = "cpu_simd";
  simd.summary = fmt::format("own kernels, {} on this machine", simd::best_kernels().name);
  simd.rank = 0;
  simd.deterministic = true;
  simd.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  simd.run = run;
  return simd;
}

}  // namespace ridge::ops::gemm
