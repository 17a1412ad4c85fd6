// Tiles of y are widened to fp32 from the rows of x that they hold, and stay in cache for both copies
// (coding/panels.h). The group of a row is found by halving, once for each row of a tile.
#include <algorithm>

#include "numerics/convert.h"
#include "ops/coding/panels.h"
#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {
namespace {

class Padded final : public coding::PanelSource {
 public:
  Padded(const TensorView& x, std::span<const std::int64_t> offsets, std::span<const std::int64_t> padded,
         std::int64_t capacity)
      : x_(x), offsets_(offsets), padded_(padded), ends_(padded.begin() + 1, padded.end()) {
    ends_.back() = capacity;  // zeros behind all groups change no scale
  }

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    const std::int64_t from = source_of(row);
    if (from < 0) {
      std::fill_n(out, count, 0.0F);
      return;
    }
    numerics::to_float(x_.dtype,
                       static_cast<const unsigned char*>(x_.data) + size_bytes(x_.dtype, from * x_.stride[0] + first),
                       out, count);
  }
  [[nodiscard]] std::span<const std::int64_t> segment_ends() const override { return ends_; }

 private:
  // The row of x; -1: none.
  [[nodiscard]] std::int64_t source_of(std::int64_t row) const {
    const auto g = static_cast<std::size_t>(std::ranges::upper_bound(padded_, row) - padded_.begin() - 1);
    if (g + 1 == padded_.size()) return -1;
    const std::int64_t from = offsets_[g] + row - padded_[g];
    return from < offsets_[g + 1] ? from : -1;
  }
  const TensorView& x_;
  std::span<const std::int64_t> offsets_, padded_;
  std::vector<std::int64_t> ends_;
};

void store(const std::vector<std::int64_t>& padded, const TensorView& out) {
  for (std::size_t g = 0; g < padded.size(); ++g) {
    if (out.dtype == DType::kI64) {
      static_cast<std::int64_t*>(out.data)[g] = padded[g];
    } else {
      static_cast<std::int32_t*>(out.data)[g] = static_cast<std::int32_t>(padded[g]);
    }
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const coding::Coding c = coding_of(problem);
  const std::vector<std::int64_t> offsets = read_offsets(arguments[kOffsetsOperand]);
  RIDGE_CHECK_OK(check_offsets(problem.problem_case.op, offsets, s.rows));
  RIDGE_CHECK_OK(coding::given_amax(problem, arguments.operands, c));
  const std::vector<std::int64_t> padded = padded_offsets(offsets, s.align);
  store(padded, operand(problem, arguments.operands, "padded"));
  return coding::write_copies(problem, arguments.operands, c, Padded(arguments[kX], offsets, padded, c.rows), stream);
}

}  // namespace

Implementation cpu_panels() {
  Implementation own;
  own.name = "cpu_panels";
  own.summary =
      fmt::format("rows of groups to panels in cache, vectorised conversions ({})", numerics::bulk_conversion_isa());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::grouped_quantize
