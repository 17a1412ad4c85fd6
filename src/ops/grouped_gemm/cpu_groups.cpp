// Groups one after the other through the register tiles of gemm: those of the matrix unit (AMX), of bf16 dot products
// where the processor has them at full rate, or of fp32. Every group has all threads, so many tiny groups use one
// thread each in turn.
#include <cstring>

#include "base/error.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/amx/driver.h"
#include "ops/matmul/simd/driver.h"

namespace ridge::ops::grouped_gemm {
namespace {

bool multiply(const matmul::simd::Arguments& arguments, int threads) {
  if (arguments.dtype == DType::kBf16) {
    if (matmul::amx::unusable().empty()) return matmul::amx::run(arguments, threads);
    if (matmul::simd::bf16dot_at_full_rate())
      return matmul::simd::run(*matmul::simd::bf16dot_kernels(), arguments, threads);
  }
  return matmul::simd::run(matmul::simd::best_kernels(), arguments, threads);
}

matmul::simd::Arguments arguments_of(const Shape& s, const GroupProduct& p) {
  matmul::simd::Arguments g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.dtype = s.dtype;
  g.out = s.out;
  g.a = p.a.data;
  g.a_stride = p.a.stride[0];
  g.trans_a = p.trans_a;
  g.b = p.b.data;
  g.b_stride = p.b.stride[0];
  g.trans_b = p.trans_b;
  g.c = p.c.data;
  g.c_stride = p.c.stride[0];
  g.accumulate = s.accumulate;
  return g;
}

void clear_rows(const TensorView& rows) {
  for (std::int64_t i = 0; i < rows.shape[0]; ++i) {
    std::memset(rows_of(rows, i, i + 1).data, 0, static_cast<std::size_t>(size_bytes(rows.dtype, rows.shape[1])));
  }
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  if (operands[kC].element_count() == 0) return ok_status();
  const std::vector<std::int64_t> offsets = offsets_of(problem, operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const GroupProduct product = product_of(s, operands, offsets, g);
    if (product.m == 0 || (s.accumulate && product.k == 0)) continue;
    if (!multiply(arguments_of(s, product), stream.threads)) {
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
