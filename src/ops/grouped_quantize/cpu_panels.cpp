// Tiles of y are made in fp32 from the rows of x that they hold, and stay in cache for both copies (coding/panels.h).
// The group of a row is found by halving, once for each row of a tile. Where q lies as the rows do, each copy makes
// tiles of its own.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/coding/panels.h"
#include "ops/gating/simd/pieces.h"
#include "ops/grouped_quantize/grouped_quantize.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::grouped_quantize {
namespace {

using activation::kPiece;

// m, in pieces that are rounded to the dtype of x.
class Made {
 public:
  Made(const Problem& problem, const Arguments& arguments)
      : s_(shape_of(problem)),
        x_(arguments[kX]),
        index_(static_cast<const std::int32_t*>(operand(problem, arguments, "index").data)),
        dy_(operand(problem, arguments, "dy")),
        probs_(operand(problem, arguments, "probs")) {}

  [[nodiscard]] const Shape& shape() const { return s_; }
  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const {
    if (s_.of == GroupedQuantizeOf::kRows) {
      if (index_ != nullptr) row = index_[row];
      if (row < 0) {
        std::fill_n(out, count, 0.0F);
        return;
      }
      return numerics::to_float(
          x_.dtype, static_cast<const unsigned char*>(x_.data) + size_bytes(x_.dtype, row * x_.stride[0] + first), out,
          count);
    }
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t here = s_.of == GroupedQuantizeOf::kSwiglu
                                    ? forward(row, first + done, count - done, out + done)
                                    : backward(row, first + done, count - done, out + done);
      round(out + done, here);
      done += here;
    }
  }
  // What the row's factor has for a gradient.
  [[nodiscard]] float factor_gradient(std::int64_t row) const {
    alignas(64) float of_gate[kPiece], of_up[kPiece];
    Lanes lanes;
    for (std::int64_t first = 0; first < s_.cols / 2; first += kPiece) {
      gradients(row, first, std::min(kPiece, s_.cols / 2 - first), of_gate, of_up, lanes);
    }
    return total_of(lanes);
  }

 private:
  [[nodiscard]] activation::Factors factors(std::int64_t row) const {
    return {s_.probs ? static_cast<const float*>(probs_.data)[row] : 1, 0, 0};
  }
  // As many elements as they say.
  std::int64_t forward(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const {
    const std::int64_t here = std::min(kPiece, count);
    alignas(64) float a[kPiece], b[kPiece];
    const RowOfMatrix x(x_, row);
    pieces_.forward(ActivationFunction::kSilu, factors(row), x.read(first, here, a), x.read(s_.cols + first, here, b),
                    out, here);
    return here;
  }
  std::int64_t backward(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const {
    const std::int64_t half = s_.cols / 2, at = first % half, here = std::min({kPiece, count, half - at});
    alignas(64) float other[kPiece];
    const bool of_up = first >= half;
    Lanes lanes;  // not asked for here
    gradients(row, at, here, of_up ? other : out, of_up ? out : other, lanes);
    return here;
  }
  // Of `count` elements, at most kPiece, from column `at` of dy.
  void gradients(std::int64_t row, std::int64_t at, std::int64_t count, float* of_gate, float* of_up,
                 Lanes& of_factor) const {
    alignas(64) float a[kPiece], b[kPiece], c[kPiece];
    const RowOfMatrix x(x_, row), dy(dy_, row);
    pieces_.backward(ActivationFunction::kSilu, factors(row),
                     {dy.read(at, count, a), x.read(at, count, b), x.read(s_.cols / 2 + at, count, c), of_gate, of_up},
                     of_factor, count);
  }
  void round(float* numbers, std::int64_t count) const {
    if (s_.dtype == DType::kF32) return;
    std::uint16_t stored[kPiece];
    numerics::from_float(s_.dtype, numbers, stored, count);
    numerics::to_float(s_.dtype, stored, numbers, count);
  }

  Shape s_;
  TensorView x_;
  const std::int32_t* index_;  // null: rows are where they are
  TensorView dy_, probs_;
  const activation::Pieces& pieces_ = activation::best_pieces();
};

// y
class Padded final : public coding::PanelSource {
 public:
  Padded(const Made& made, std::span<const std::int64_t> offsets, std::span<const std::int64_t> padded)
      : made_(made), offsets_(offsets), padded_(padded), ends_(padded.begin() + 1, padded.end()) {
    ends_.back() = made.shape().capacity;  // zeros behind all groups change no scale
  }

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    const std::int64_t from = source_of(row);
    if (from >= 0) return made_.read(from, first, count, out);
    std::fill_n(out, count, 0.0F);
  }
  [[nodiscard]] std::span<const std::int64_t> segment_ends() const override { return ends_; }

 private:
  // The row of m; -1: none.
  [[nodiscard]] std::int64_t source_of(std::int64_t row) const {
    const auto g = static_cast<std::size_t>(std::ranges::upper_bound(padded_, row) - padded_.begin() - 1);
    if (g + 1 == padded_.size()) return -1;
    const std::int64_t from = offsets_[g] + row - padded_[g];
    return from < offsets_[g + 1] ? from : -1;
  }
  const Made& made_;
  std::span<const std::int64_t> offsets_, padded_;
  std::vector<std::int64_t> ends_;
};

// m with zeros in rows of no group.
class InPlace final : public coding::PanelSource {
 public:
  InPlace(const Made& made, std::span<const std::int64_t> offsets) : made_(made), offsets_(offsets) {}

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    if (row >= offsets_.front() && row < offsets_.back()) return made_.read(row, first, count, out);
    std::fill_n(out, count, 0.0F);
  }

 private:
  const Made& made_;
  std::span<const std::int64_t> offsets_;
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

// dprobs: every thread takes a run of rows.
void write_factor_gradients(const Made& made, std::span<const std::int64_t> offsets, const TensorView& dprobs,
                            const Stream& stream) {
  const std::int64_t rows = made.shape().rows;
  const int threads = static_cast<int>(std::clamp<std::int64_t>(rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = rows * (thread + 1) / threads;
    for (std::int64_t row = rows * thread / threads; row < last; ++row) {
      const bool of_group = row >= offsets.front() && row < offsets.back();
      static_cast<float*>(dprobs.data)[row] = of_group ? made.factor_gradient(row) : 0;
    }
  });
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const coding::Coding c = coding_of(problem);
  const std::vector<std::int64_t> offsets = read_offsets(arguments[kOffsetsOperand]);
  RIDGE_CHECK_OK(check_numbers(problem, arguments, offsets));
  RIDGE_CHECK_OK(coding::given_amax(problem, arguments.operands, c));
  const std::vector<std::int64_t> padded = padded_offsets(offsets, s.align);
  store(padded, operand(problem, arguments.operands, "padded"));
  const Made made(problem, arguments);
  if (s.dprobs) write_factor_gradients(made, offsets, operand(problem, arguments, "dprobs"), stream);
  const auto write = [&](const coding::Coding& copies, const coding::PanelSource& source) {
    return coding::write_copies(problem, arguments.operands, copies, source, stream);
  };
  if (!s.own_rows) return write(c, Padded(made, offsets, padded));
  RIDGE_CHECK_OK(write(own_coding_of(problem), InPlace(made, offsets)));
  return write(transposed_coding_of(problem), Padded(made, offsets, padded));
}

}  // namespace

Implementation cpu_panels() {
  Implementation own;
  own.name = "cpu_panels";
  own.summary = fmt::format("rows of groups to panels in cache, in vectors of fp32, vectorised conversions ({})",
                            numerics::bulk_conversion_isa());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::grouped_quantize
