// A tensor in pieces of 1024 numbers that stay in the first-level cache between the conversions to and from fp32. Every
// thread takes a run of pieces. Bound by memory.
#include <algorithm>
#include <tuple>

#include "device/cpu/thread_pool.h"
#include "ops/adamw/adamw.h"
#include "ops/adamw/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::adamw {
namespace {

constexpr std::int64_t kPiecesPerThread = 16;  // a second thread costs more than fewer bring

struct Operands {
  TensorView grad, param, exp_avg, exp_avg_sq, master;
};

float number(const TensorView& view, float otherwise) {
  return view.rank == 0 ? otherwise : *static_cast<const float*>(view.data);
}

// A piece of an operand that changes: as fp32 where it lies, or in memory of its own.
class Changing {
 public:
  Changing(const TensorView& view, std::int64_t first, std::int64_t count)
      : row_(view, 0), first_(first), count_(count), numbers_(row_.target(first, memory_)) {
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

void step_piece(Step step, const Factors& factors, const Operands& o, std::int64_t first, std::int64_t count) {
  alignas(64) float memory[kPiece];
  const bool has_master = o.master.rank != 0;
  Changing weights(has_master ? o.master : o.param, first, count), mean(o.exp_avg, first, count),
      square(o.exp_avg_sq, first, count);
  step(factors, RowOfMatrix(o.grad, 0).read(first, count, memory), weights.numbers(), mean.numbers(), square.numbers(),
       count);
  weights.store(), mean.store(), square.store();
  if (!has_master) return;
  const RowOfMatrix param(o.param, 0);
  float* const to = param.target(first, memory);
  if (to != memory) std::copy_n(weights.numbers(), count, to);
  param.write(first, count, weights.numbers());
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  if (number(named("skip"), 0) != 0) return ok_status();
  const Operands o{named("grad"), named("param"), named("exp_avg"), named("exp_avg_sq"), named("master")};
  const Constants c = constants_of(problem, arguments);
  const auto single = [](double x) { return static_cast<float>(x); };
  const Factors factors{number(named("factor"), 1) * (s.maximize ? -1.0F : 1.0F),
                        single(c.decay),
                        single(c.first),
                        single(c.kept),
                        single(c.second),
                        single(c.step),
                        single(c.root),
                        single(c.eps)};
  const Step step = best_step();
  const std::int64_t pieces = (s.count + kPiece - 1) / kPiece,
                     worth = std::max<std::int64_t>(pieces / kPiecesPerThread, 1);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(worth, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = pieces * (thread + 1) / threads;
    for (std::int64_t piece = pieces * thread / threads; piece < last; ++piece) {
      step_piece(step, factors, o, piece * kPiece, std::min(kPiece, s.count - piece * kPiece));
    }
  });
  return ok_status();
}

}  // namespace

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
