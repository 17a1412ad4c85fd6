// The library's own gemm for CPUs: register tiles of broadcast-and-FMA over packed panels, in the widest instruction
// set the processor has; bf16 and f16 are widened to fp32 while they are packed, because their own dot products run at
// half the rate of fp32 FMA where there is no matrix unit. Wins from a few tiles up. One row times a matrix is bound by
// memory, and reads the matrix once as it is stored; a matrix times one column leaves most of each tile empty.
#include "base/error.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/simd/product.h"

namespace ridge::ops::gemm {
namespace {

bool multiply(const simd::Arguments& arguments, int threads) {
  return simd::run(simd::best_kernels(), arguments, threads);
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  return simd::run_product(multiply, problem, operands, stream);
}

}  // namespace

Implementation cpu_simd() {
  Implementation simd;
  simd.name = "cpu_simd";
  simd.summary = fmt::format("own kernels, {} on this machine", simd::best_kernels().name);
  simd.rank = 0;
  simd.deterministic = true;
  simd.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  simd.run = per_matrix(run);
  return simd;
}

}  // namespace ridge::ops::gemm
