// Tiles of x are widened to fp32 and stay in cache for both copies (coding/panels.h). For scales of rows and tensors
// each copy widens panels of its own, and those of a tensor read x once more, unless their largest magnitude is given.
#include "numerics/convert.h"
#include "ops/coding/panels.h"
#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

class Widened final : public coding::PanelSource {
 public:
  explicit Widened(const TensorView& x) : x_(x) {}

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    numerics::to_float(x_.dtype, at(row, first), out, count);
  }
  [[nodiscard]] const float* in_place(std::int64_t row) const override {
    return x_.dtype == DType::kF32 ? reinterpret_cast<const float*>(at(row, 0)) : nullptr;
  }
  [[nodiscard]] std::int64_t stride() const override { return x_.stride[0]; }

 private:
  [[nodiscard]] const unsigned char* at(std::int64_t row, std::int64_t col) const {
    return static_cast<const unsigned char*>(x_.data) + size_bytes(x_.dtype, row * x_.stride[0] + col);
  }
  const TensorView& x_;
};

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  return coding::write_copies(problem, arguments.operands, coding_of(problem), Widened(arguments[0]), stream);
}

}  // namespace

Implementation cpu_panels() {
  Implementation own;
  own.name = "cpu_panels";
  own.summary = fmt::format("panels in cache, vectorised conversions ({})", numerics::bulk_conversion_isa());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::quantize
