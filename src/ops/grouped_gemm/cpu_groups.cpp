// Groups one after the other through the register tiles of gemm: those of the matrix unit (AMX), of bf16 dot products
// where the processor has them at full rate, or of fp32. Every group has all threads, so many tiny groups use one
// thread each in turn. Rows that are found by index are copied first, group by group.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/error.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::grouped_gemm {
namespace {

// Memory for the rows of any one group that are found by index, behind each other.
class CopiedRows {
 public:
  CopiedRows(const TensorView& source, const GroupedOutput& out) : source_(source) {
    std::int64_t most = 0;
    for (std::int64_t g = 0; g < out.groups(); ++g) most = std::max(most, out.rows_of(g));
    memory_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(most * row_bytes()) + 1]);
  }
  // No data where there was no memory.
  [[nodiscard]] TensorView of(std::span<const std::int32_t> index) const {
    const auto bytes = static_cast<std::size_t>(row_bytes());
    std::byte* to = memory_.get();
    for (std::size_t row = 0; to != nullptr && row < index.size(); ++row, to += bytes) {
      if (index[row] < 0) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, rows_of(source_, index[row], index[row] + 1).data, bytes);
      }
    }
    return TensorView::contiguous(memory_.get(), source_.dtype,
                                  {static_cast<std::int64_t>(index.size()), source_.shape[1]});
  }

 private:
  [[nodiscard]] std::int64_t row_bytes() const { return size_bytes(source_.dtype, source_.shape[1]); }

  TensorView source_;
  std::unique_ptr<std::byte[]> memory_;
};

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  const GroupedOutput out = output_of(s, operands, offsets);
  std::optional<CopiedRows> copied;
  if (s.gather != kNone) copied.emplace(operands[s.gather == kOfA ? kA : kB], out);
  return matmul::multiply_groups(out, problem.problem_case.text(), [&](std::int64_t group) {
    GroupProduct p = product_of(s, operands, offsets, group);
    if (copied) {
      TensorView& gathered = s.gather == kOfA ? p.a : p.b;
      gathered = copied->of(p.index);
      if (gathered.data == nullptr) return false;
    }
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
