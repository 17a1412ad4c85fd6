// Groups one after the other through the register tiles of gemm: those of the matrix unit (AMX), of bf16 dot products
// where the processor has them at full rate, or of fp32. Every group has all threads, so many tiny groups use one
// thread each in turn.
#include <cstring>

#include "base/error.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::grouped_gemm {
namespace {

void clear_rows(const TensorView& rows) {
  for (std::int64_t i = 0; i < rows.shape[0]; ++i) {
    std::memset(rows_of(rows, i, i + 1).data, 0, static_cast<std::size_t>(size_bytes(rows.dtype, rows.shape[1])));
  }
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  if (operands[kC].element_count() == 0) return ok_status();
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const GroupProduct p = product_of(s, operands, offsets, g);
    if (p.m == 0 || (s.accumulate && p.k == 0)) continue;
    if (!matmul::multiply(matmul::arguments_of(p.a, p.trans_a, p.b, p.trans_b, p.c, s.accumulate), stream.threads)) {
      return with_hint(make_error(ErrorCode::kIo, "{}: no memory for packing", problem.problem_case.text()),
                       "use a smaller problem or fewer threads");
    }
  }
  if (s.along_sums) return ok_status();
  clear_rows(rows_of(operands[kC], 0, offsets.front()));
  clear_rows(rows_of(operands[kC], offsets.back(), s.rows));
  return ok_status();
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
