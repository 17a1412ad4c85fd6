// Groups one after the other through the register tiles of gemm: those of the matrix unit (AMX), of bf16 dot products
// where the processor has them at full rate, or of fp32. Every group has all threads, so many tiny groups use one
// thread each in turn. Rows that are found by index are copied first, group by group.
#include <cstring>

#include "base/error.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::grouped_gemm {
namespace {

// The rows of a group that are found by index, behind each other.
class CopiedRows {
 public:
  TensorView of(const TensorView& source, std::span<const std::int32_t> index) {
    const std::int64_t width = source.shape[1];
    const auto bytes = static_cast<std::size_t>(size_bytes(source.dtype, width));
    rows_.resize(index.size() * bytes);
    for (std::size_t row = 0; row < index.size(); ++row) {
      std::byte* const to = rows_.data() + row * bytes;
      if (index[row] < 0) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, ops::rows_of(source, index[row], index[row] + 1).data, bytes);
      }
    }
    return TensorView::contiguous(rows_.data(), source.dtype, {static_cast<std::int64_t>(index.size()), width});
  }

 private:
  std::vector<std::byte> rows_;
};

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  CopiedRows copied;
  return matmul::multiply_groups(output_of(s, operands, offsets), problem.problem_case.text(), [&](std::int64_t group) {
    GroupProduct p = product_of(s, operands, offsets, group);
    if (s.gather == kOfA) p.a = copied.of(p.a, p.index);
    if (s.gather == kOfB) p.b = copied.of(p.b, p.index);
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
