// Unpacked operands through the kernels of gemm for this processor (ops/matmul/coded_product.cpp).
#include "base/error.h"
#include "ops/gemm_fp8/gemm_fp8.h"

namespace ridge::ops::gemm_fp8 {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  RIDGE_CHECK_OK(check_scales(problem, operands));
  if (matmul::multiply(product_of(shape_of(problem), operands), stream.threads)) return ok_status();
  return with_hint(make_error(ErrorCode::kIo, "{}: no memory for the unpacked operands", problem.problem_case.text()),
                   "use a smaller problem");
}

}  // namespace

Implementation cpu_simd() {
  Implementation own;
  own.name = "cpu_simd";
  own.summary =
      fmt::format("unpacked operands through gemm's own kernels, {} on this machine", matmul::unit_of_coded_products());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::gemm_fp8
