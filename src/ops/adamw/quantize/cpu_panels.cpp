// Where groups end within 128 x 128 elements, a tile of weights is stepped in pieces of fp32 and coded from there while
// it is in cache (coding/panels.h). For scales of rows and tensors all of the weight is stepped first, and read again.
// Bound by memory and conversions.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/adamw/cpu_pieces.h"
#include "ops/adamw/quantize/quantize.h"
#include "ops/coding/panels.h"

namespace ridge::ops::adamw_quantize {
namespace {

class Weights final : public coding::PanelSource {
 public:
  // `stepper`: steps what is read; null: it is as it shall be.
  Weights(const TensorView& weights, const adamw::Stepper* stepper) : weights_(weights), stepper_(stepper) {}

  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const override {
    for (std::int64_t done = 0; done < count && stepper_ != nullptr; done += adamw::kPiece) {
      stepper_->step(row, first + done, std::min(adamw::kPiece, count - done));
    }
    numerics::to_float(weights_.dtype, at(row, first), out, count);
  }
  [[nodiscard]] const float* in_place(std::int64_t row) const override {
    const bool there = stepper_ == nullptr && weights_.dtype == DType::kF32;
    return there ? reinterpret_cast<const float*>(at(row, 0)) : nullptr;
  }
  [[nodiscard]] std::int64_t stride() const override { return weights_.stride[0]; }

 private:
  [[nodiscard]] const unsigned char* at(std::int64_t row, std::int64_t col) const {
    return static_cast<const unsigned char*>(weights_.data) +
           size_bytes(weights_.dtype, row * weights_.stride[0] + col);
  }
  const TensorView& weights_;
  const adamw::Stepper* stepper_;
};

void step_all(const adamw::Stepper& stepper, const coding::Coding& c, const Stream& stream) {
  const int threads = static_cast<int>(std::clamp<std::int64_t>(stream.threads, 1, std::max<std::int64_t>(c.rows, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    for (std::int64_t row = c.rows * thread / threads; row < c.rows * (thread + 1) / threads; ++row) {
      for (std::int64_t first = 0; first < c.cols; first += adamw::kPiece) {
        stepper.step(row, first, std::min(adamw::kPiece, c.cols - first));
      }
    }
  });
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const coding::Coding c = coding_of(problem);
  const adamw::Stepper stepper(problem, arguments, form_of(problem));
  // Panels are read for each copy, tiles once.
  const bool first = c.granularity == Granularity::kTensor || c.granularity == Granularity::kRow;
  if (first && !stepper.skips()) step_all(stepper, c, stream);
  const Weights weights(stepper.weights(), first || stepper.skips() ? nullptr : &stepper);
  return coding::write_copies(problem, arguments.operands, c, weights, stream);
}

}  // namespace

Implementation cpu_panels() {
  Implementation own;
  own.name = "cpu_panels";
  own.summary =
      fmt::format("tiles are stepped and coded in cache, vectorised conversions ({})", numerics::bulk_conversion_isa());
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::adamw_quantize
