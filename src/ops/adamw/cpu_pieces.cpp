// A tensor in pieces that stay in cache. Every thread takes a run of pieces. Bound by memory.
#include "ops/adamw/cpu_pieces.h"

#include <algorithm>
#include <tuple>

#include "device/cpu/thread_pool.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::adamw {
namespace {

constexpr std::int64_t kPiecesPerThread = 16;  // a second thread costs more than fewer bring

float number(const TensorView& view, float otherwise) {
  return view.rank == 0 ? otherwise : *static_cast<const float*>(view.data);
}

// A piece of an operand that changes: as fp32 where it lies, or in memory of its own.
class Changing {
 public:
  Changing(const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t count)
      : row_(view, row), first_(first), count_(count), numbers_(row_.target(first, memory_)) {
    if (numbers_ == memory_) std::ignore = row_.read(first, count, memory_);
  }
  [[nodiscard]] float* numbers() { return numbers_; }
  void store() const { row_.write(first_, count_, numbers_); }

 private:
  alignas(64) float memory_[kPiece];
  RowOfMatrix row_;
  std::int64_t first_, count_;
  float* numbers_;
};

Factors factors_of(const Problem& problem, const Arguments& arguments, const Form& form) {
  const Constants c = constants_of(problem, arguments);
  const auto single = [](double x) { return static_cast<float>(x); };
  return {number(operand(problem, arguments, "factor"), 1) * (form.maximize ? -1.0F : 1.0F),
          single(c.decay),
          single(c.first),
          single(c.kept),
          single(c.second),
          single(c.step),
          single(c.root),
          single(c.eps)};
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Stepper stepper(problem, arguments, form_of(problem));
  if (stepper.skips()) return ok_status();
  const std::int64_t count = count_of(problem), pieces = (count + kPiece - 1) / kPiece,
                     worth = std::max<std::int64_t>(pieces / kPiecesPerThread, 1);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(worth, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = pieces * (thread + 1) / threads;
    for (std::int64_t piece = pieces * thread / threads; piece < last; ++piece) {
      stepper.step(0, piece * kPiece, std::min(kPiece, count - piece * kPiece));
    }
  });
  return ok_status();
}

}  // namespace

Stepper::Stepper(const Problem& problem, const Arguments& arguments, const Form& form)
    : factors_(factors_of(problem, arguments, form)),
      skips_(number(operand(problem, arguments, "skip"), 0) != 0),
      grad_(operand(problem, arguments, "grad")),
      param_(operand(problem, arguments, "param")),
      exp_avg_(operand(problem, arguments, "exp_avg")),
      exp_avg_sq_(operand(problem, arguments, "exp_avg_sq")),
      master_(operand(problem, arguments, "master")) {}

void Stepper::step(std::int64_t row, std::int64_t first, std::int64_t count) const {
  alignas(64) float memory[kPiece];
  Changing weights(this->weights(), row, first, count), mean(exp_avg_, row, first, count),
      square(exp_avg_sq_, row, first, count);
  step_(factors_, RowOfMatrix(grad_, row).read(first, count, memory), weights.numbers(), mean.numbers(),
        square.numbers(), count);
  weights.store(), mean.store(), square.store();
  if (master_.rank == 0) return;
  const RowOfMatrix param(param_, row);
  float* const to = param.target(first, memory);
  if (to != memory) std::copy_n(weights.numbers(), count, to);
  param.write(first, count, weights.numbers());
}

Implementation cpu_pieces() {
  Implementation own;
  own.name = "cpu_pieces";
  own.summary = "one pass in pieces that stay in cache, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::adamw
