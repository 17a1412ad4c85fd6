// The library's own gemm on the bf16 dot products of AVX-512 (AVX512-BF16): the tiles and the blocking of cpu_simd, in
// which a value is a pair of bf16 along k, so that nothing is widened and an instruction makes two products for each
// sum. Wins where that instruction runs at the rate of fp32 FMA (AMD from Zen 4 on); elsewhere it comes after cpu_simd.
#include "base/error.h"
#include "ops/gemm/banded_product.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {
namespace {

bool multiply(const matmul::simd::Arguments& arguments, int threads) {
  return matmul::simd::run(*matmul::simd::bf16dot_kernels(), arguments, threads);
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  if (shape_of(problem).dtype != DType::kBf16) return "the dot products are of bf16";
  if (const std::string& why = matmul::simd::bf16dot_missing(); !why.empty()) return why;
  return std::nullopt;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  if (const std::string& why = matmul::simd::bf16dot_missing(); !why.empty()) {
    return make_error(ErrorCode::kUnsupported, "{}", why);
  }
  return run_product(multiply, problem, operands, stream);
}

}  // namespace

Implementation cpu_bf16dot() {
  Implementation dot;
  dot.name = "cpu_bf16dot";
  dot.summary = "own kernels on bf16 dot products (AVX512-BF16)";
  dot.rank = matmul::simd::bf16dot_at_full_rate() ? -5 : 5;
  dot.deterministic = true;
  dot.supports = supports;
  dot.run = per_matrix(run);
  return dot;
}

}  // namespace ridge::ops::gemm
