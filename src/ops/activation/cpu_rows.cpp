// Rows in pieces of 1024 numbers that stay in the first-level cache between the conversions to and from fp32, in
// vectors. Every thread takes a run of rows. Bound by memory from a few megabytes up; short rows pay for their calls.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "ops/activation/cpu_rows.h"

namespace ridge::ops::activation {
namespace {

struct Operands {
  TensorView x, up, probs, mask, y;
};

void activate_row(const Pieces& pieces, const Shape& s, Factors factors, const Operands& o, std::int64_t row) {
  const RowOfMatrix y(o.y, row);
  if (s.mask && static_cast<const std::uint8_t*>(o.mask.data)[row] == 0) return clear_row(y, s.cols);
  factors.probs = s.probs ? static_cast<const float*>(o.probs.data)[row] : 1;
  const RowOfMatrix x(o.x, row), up(s.gated ? o.up : o.x, row);
  alignas(64) float a[kPiece], b[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, s.cols - first);
    float* const target = y.target(first, to);
    pieces.forward(s.function, factors, x.read(first, count, a), s.gated ? up.read(first, count, b) : nullptr, target,
                   count);
    y.write(first, count, target);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const Operands o{named("x"), named("up"), named("probs"), named("mask"), named("y")};
  const Factors factors = factors_of(problem, arguments);
  const Pieces& pieces = best_pieces();
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) activate_row(pieces, s, factors, o, row);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in cache, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::activation
