// Rows of x once for their sums of squares, then tiles of y in fp32 that stay in cache for both copies
// (coding/panels.h). For scales of rows and tensors each copy makes panels of its own.
#include "numerics/convert.h"
#include "ops/coding/panels.h"
#include "ops/rmsnorm/quantize/quantize.h"
#include "ops/row_norm/cpu_rows.h"

namespace ridge::ops::rmsnorm_quantize {
namespace {

class Normalised final : public coding::PanelSource {
 public:
  // `weight`: a factor of each column; null: 1.
  Normalised(const TensorView& input, const TensorView& rstd, const float* weight)
      : input_(input), rstd_(static_cast<const float*>(rstd.data)), weight_(weight) {}

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    const RowOfMatrix input(input_, row);
    alignas(64) float numbers[row_norm::kPiece];
    for (std::int64_t done = 0; done < count; done += row_norm::kPiece) {
      const std::int64_t here = std::min(row_norm::kPiece, count - done), at = first + done;
      pieces_.scale(input.read(at, here, numbers), nullptr, rstd_[row], weight_ == nullptr ? nullptr : weight_ + at,
                    nullptr, out + done, here);
    }
  }

 private:
  const TensorView& input_;
  const float *rstd_, *weight_;
  const row_norm::Pieces& pieces_ = row_norm::best_pieces();
};

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(row_norm::write_statistics(problem, arguments, stream));
  RIDGE_TRY(weight, row_norm::columns_of(problem, operand(problem, arguments, "weight"),
                                         is_zero_centred(problem) ? 1.0F : 0.0F));
  const TensorView input = operand(problem, arguments, has_residual(problem) ? "sum" : "x");
  const Normalised source(input, operand(problem, arguments, "rstd"), weight.get());
  return coding::write_copies(problem, arguments.operands, coding_of(problem), source, stream);
}

}  // namespace

Implementation cpu_panels() {
  Implementation own;
  own.name = "cpu_panels";
  own.summary = fmt::format("a pass for the factors of rows, then panels in cache, vectorised conversions ({})",
                            numerics::bulk_conversion_isa());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::rmsnorm_quantize
