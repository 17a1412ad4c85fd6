// Tiles of y are computed in fp32, in vectors, and stay in cache for both copies (coding/panels.h). For scales of rows
// and tensors each copy computes panels of its own. Bound by conversions and arithmetic.
#include "numerics/convert.h"
#include "ops/activation/cpu_rows.h"
#include "ops/activation/quantize/quantize.h"
#include "ops/coding/panels.h"

namespace ridge::ops::activation_quantize {
namespace {

class Activated final : public coding::PanelSource {
 public:
  Activated(const Problem& problem, const Arguments& arguments)
      : s_(shape_of(problem)), factors_(activation::factors_of(problem, arguments)) {
    const auto named = [&](const char* name) { return operand(problem, arguments, name); };
    x_ = named("x"), up_ = named("up"), probs_ = named("probs"), mask_ = named("mask");
  }

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    if (s_.mask && static_cast<const std::uint8_t*>(mask_.data)[row] == 0) {
      std::fill_n(out, count, 0.0F);
      return;
    }
    activation::Factors factors = factors_;
    factors.probs = s_.probs ? static_cast<const float*>(probs_.data)[row] : 1;
    const RowOfMatrix x(x_, row), up(s_.gated ? up_ : x_, row);
    alignas(64) float a[activation::kPiece], b[activation::kPiece];
    for (std::int64_t done = 0; done < count; done += activation::kPiece) {
      const std::int64_t here = std::min(activation::kPiece, count - done), at = first + done;
      pieces_.forward(s_.function, factors, x.read(at, here, a), s_.gated ? up.read(at, here, b) : nullptr, out + done,
                      here);
    }
  }

 private:
  activation::Shape s_;
  activation::Factors factors_;
  TensorView x_, up_, probs_, mask_;
  const activation::Pieces& pieces_ = activation::best_pieces();
};

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  return coding::write_copies(problem, arguments.operands, coding_of(problem), Activated(problem, arguments), stream);
}

}  // namespace

Implementation cpu_panels() {
  Implementation own;
  own.name = "cpu_panels";
  own.summary =
      fmt::format("panels in cache, in vectors of fp32, vectorised conversions ({})", numerics::bulk_conversion_isa());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::activation_quantize
