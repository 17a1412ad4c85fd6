// Groups one after the other through the products of 8-bit floats that gemm_fp8 makes (ops/matmul/coded_product.cpp).
// Every group has all threads, so many tiny groups use one thread each in turn. Rows that are found by index are copied
// first, with their scales.
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/error.h"
#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

// The operands of a call, with rows of A and scales where they would lie without an index. Those of no group, and rows
// of zeros, are zeros.
class OperandsInPlace {
 public:
  // Nothing where there is no memory.
  static std::optional<OperandsInPlace> make(const Shape& s, std::span<const TensorView> operands,
                                             std::span<const std::int64_t> offsets) {
    OperandsInPlace made;
    made.views_.assign(operands.begin(), operands.end());
    if (!s.gather) return made;
    const bool of_blocks = s.scaling == GroupedFp8Scaling::kBlock, of_rows = s.scaling == GroupedFp8Scaling::kRow;
    const std::int64_t steps = of_blocks ? operands[kScaleA].shape[0] : of_rows ? 1 : 0;
    made.codes_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(s.rows * s.k) + 1]());
    made.scales_.reset(new (std::nothrow) float[static_cast<std::size_t>(s.rows * steps) + 1]());
    if (made.codes_ == nullptr || made.scales_ == nullptr) return std::nullopt;
    const auto* const index = static_cast<const std::int32_t*>(operands[s.index()].data);
    const auto* const scales = static_cast<const float*>(operands[kScaleA].data);
    const std::int64_t scale_stride = of_blocks ? operands[kScaleA].stride[0] : 0;
    for (std::int64_t row = offsets.front(); row < offsets.back(); ++row) {
      const std::int64_t source = index[row];
      if (source < 0) continue;
      if (s.k > 0) {
        std::memcpy(made.codes_.get() + row * s.k, rows_of(operands[kA], source, source + 1).data,
                    static_cast<std::size_t>(s.k));
      }
      for (std::int64_t step = 0; step < steps; ++step) {
        made.scales_[static_cast<std::size_t>(step * s.rows + row)] = scales[step * scale_stride + source];
      }
    }
    made.views_[kA] = TensorView::contiguous(made.codes_.get(), operands[kA].dtype, {s.rows, s.k});
    if (of_blocks) made.views_[kScaleA] = TensorView::contiguous(made.scales_.get(), DType::kF32, {steps, s.rows});
    if (of_rows) made.views_[kScaleA] = TensorView::contiguous(made.scales_.get(), DType::kF32, {s.rows});
    return made;
  }
  [[nodiscard]] std::span<const TensorView> views() const { return views_; }

 private:
  std::vector<TensorView> views_;
  std::unique_ptr<std::byte[]> codes_;
  std::unique_ptr<float[]> scales_;
};

Status run(const Problem& problem, std::span<const TensorView> given, const Stream& stream) {
  const Shape s = shape_of(problem);
  RIDGE_TRY(offsets, offsets_of(problem, given));
  const std::optional<OperandsInPlace> in_place = OperandsInPlace::make(s, given, offsets);
  if (!in_place) {
    return with_hint(make_error(ErrorCode::kIo, "{}: no memory for rows by index", problem.problem_case.text()),
                     "use a smaller problem");
  }
  const std::span<const TensorView> operands = in_place->views();
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
