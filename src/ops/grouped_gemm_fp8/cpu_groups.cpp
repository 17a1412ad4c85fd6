// Groups one after the other through the products of 8-bit floats that gemm_fp8 makes (ops/matmul/coded_product.cpp).
// Every group has all threads, so many tiny groups use one thread each in turn.
#include "base/error.h"
#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  RIDGE_TRY(offsets, offsets_of(problem, operands));
  return matmul::multiply_groups(output_of(s, operands, offsets), problem.problem_case.text(), [&](std::int64_t group) {
    return matmul::multiply(product_of(s, operands, offsets, group), stream.threads);
  });
}

}  // namespace

Implementation cpu_groups() {
  Implementation own;
  own.name = "cpu_groups";
  own.summary = fmt::format("group by group, unpacked operands through gemm's own kernels, {} on this machine",
                            matmul::unit_of_coded_products());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::grouped_gemm_fp8
