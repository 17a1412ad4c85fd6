// Tiles of d are computed in fp32, in vectors, and stay in cache for both copies (coding/panels.h). A tile of one
// gradient computes the other as well and leaves it. For scales of rows and tensors each copy computes panels of its
// own. Bound by arithmetic.
#include "numerics/convert.h"
#include "ops/activation/cpu_rows.h"
#include "ops/activation/quantize/backward/backward.h"
#include "ops/coding/panels.h"

namespace ridge::ops::activation_quantize_backward {
namespace {

class Differentiated final : public coding::PanelSource {
 public:
  Differentiated(const Problem& problem, const Arguments& arguments)
      : s_(shape_of(problem)), factors_(activation::factors_of(problem, arguments)) {
    const auto named = [&](const char* name) { return operand(problem, arguments, name); };
    dy_ = named("dy"), x_ = named("x"), up_ = named("up"), probs_ = named("probs"), mask_ = named("mask");
  }

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    if (s_.mask && static_cast<const std::uint8_t*>(mask_.data)[row] == 0) {
      std::fill_n(out, count, 0.0F);
      return;
    }
    activation::Factors factors = factors_;
    factors.probs = s_.probs ? static_cast<const float*>(probs_.data)[row] : 1;
    const RowOfMatrix dy(dy_, row), x(x_, row), up(s_.gated ? up_ : x_, row);
    alignas(64) float a[activation::kPiece], b[activation::kPiece], c[activation::kPiece], other[activation::kPiece];
    Lanes lanes;  // the gradient of the factor, which nobody asks for
    for (std::int64_t done = 0; done < count;) {
      const bool of_up = first + done >= s_.cols;
      const std::int64_t at = first + done - (of_up ? s_.cols : 0);
      const std::int64_t here = std::min({activation::kPiece, count - done, s_.cols - at});
      float* const to = out + done;
      pieces_.backward(s_.function, factors,
                       {dy.read(at, here, a), x.read(at, here, b), s_.gated ? up.read(at, here, c) : nullptr,
                        of_up ? other : to, of_up ? to : other},
                       lanes, here);
      done += here;
    }
  }

 private:
  activation::Shape s_;
  activation::Factors factors_;
  TensorView dy_, x_, up_, probs_, mask_;
  const activation::Pieces& pieces_ = activation::best_pieces();
};

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  return coding::write_copies(problem, arguments.operands, coding_of(problem), Differentiated(problem, arguments),
                              stream);
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

}  // namespace ridge::ops::activation_quantize_backward
