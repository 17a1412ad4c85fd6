// The library's own gemm for CPUs: register tiles of broadcast-and-FMA over packed panels, in the widest instruction
// set the processor has; bf16 and f16 are widened to fp32 while they are packed. Wins from a few tiles up. Few rows or
// columns are bound by memory, and read the matrix once as it is stored; with a matrix stored across k, two to twelve
// of them leave most of each tile empty.
#include "base/error.h"
#include "ops/gemm/banded_product.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {
namespace {

bool multiply(const matmul::simd::Arguments& arguments, int threads) {
  return matmul::simd::run(matmul::simd::best_kernels(), arguments, threads);
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  return run_product(multiply, problem, operands, stream);
}

}  // namespace

Implementation cpu_simd() {
  Implementation simd;
  simd.name = "cpu_simd";
  simd.summary = fmt::format("own kernels, {} on this machine", matmul::simd::best_kernels().name);
  simd.rank = 0;
  simd.deterministic = true;
  simd.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  simd.run = per_matrix(run);
  return simd;
}

}  // namespace ridge::ops::gemm
