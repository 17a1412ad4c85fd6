// The library's own gemm on the matrix unit of x86 processors (AMX), for bf16: 32 x 32 sums of two by two tiles, both
// operands packed into tiles. Wins by the rate of the unit, sixteen times that of fp32 FMA, as soon as a few tiles are
// full. One row or one column is bound by memory and goes to the products of few rows of cpu_simd.
#include "base/error.h"
#include "ops/gemm/banded_product.h"
#include "ops/gemm/gemm.h"
#include "ops/matmul/amx/driver.h"

namespace ridge::ops::gemm {
namespace {

Refusal supports(const Problem& problem, const DeviceInfo&) {
  if (shape_of(problem).dtype != DType::kBf16) return "the matrix unit multiplies bf16";
  if (!matmul::amx::unusable().empty()) return matmul::amx::unusable();
  return std::nullopt;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  if (const std::string& why = matmul::amx::unusable(); !why.empty())
    return make_error(ErrorCode::kUnsupported, "{}", why);
  return run_product(matmul::amx::run, problem, operands, stream);
}

}  // namespace

Implementation cpu_amx() {
  Implementation amx;
  amx.name = "cpu_amx";
  amx.summary = "own kernel on the matrix unit (AMX); one row as cpu_simd";
  amx.rank = -10;
  amx.deterministic = true;
  amx.supports = supports;
  amx.run = per_matrix(run);
  return amx;
}

}  // namespace ridge::ops::gemm
