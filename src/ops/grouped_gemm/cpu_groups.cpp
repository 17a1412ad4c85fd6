// Groups one after the other through the register tiles of gemm: those of the matrix unit (AMX), of bf16 dot products
// where the processor has them at full rate, or of fp32. Every group has all threads, so many tiny groups use one
// thread each in turn.
#include "base/error.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::grouped_gemm {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  return matmul::multiply_groups(output_of(s, operands, offsets), problem.problem_case.text(), [&](std::int64_t group) {
    const GroupProduct p = product_of(s, operands, offsets, group);
    return matmul::multiply(matmul::arguments_of(p.a, p.trans_a, p.b, p.trans_b, p.c, s.accumulate), stream.threads);
  });
}

}  // namespace

Implementation cpu_groups() {
  Implementation own;
  own.name = "cpu_groups";
  own.summary = "group by group through gemm's own kernels for this processor";
  own.rank = 0;
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::grouped_gemm
