// Rows in turns of two passes, in pieces of 1024 numbers that stay in the first-level cache: the squares, then the
// products. The second pass reads the row from the second-level cache and converts it again, which costs less than
// keeping it in fp32. Every thread takes a run of rows. Bound by memory from a few megabytes up; short rows pay for
// their calls.
#include "ops/rmsnorm/cpu_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "device/cpu/thread_pool.h"

namespace ridge::ops::rmsnorm {
namespace {

struct Operands {
  TensorView x, residual, y, sum, rstd;
  const float* weight = nullptr;  // null: 1
  std::int64_t cols = 0;
  float eps = 0;
};

// x + residual as it is stored.
void add_residual(const Pieces& pieces, const Operands& o, std::int64_t row, std::int64_t first, std::int64_t count) {
  alignas(64) float a[kPiece], b[kPiece], c[kPiece];
  const RowOfMatrix sum(o.sum, row);
  float* const to = sum.target(first, c);
  pieces.add(RowOfMatrix(o.x, row).read(first, count, a), RowOfMatrix(o.residual, row).read(first, count, b), to,
             count);
  sum.write(first, count, to);
}

void normalise_row(const Pieces& pieces, const Operands& o, std::int64_t row) {
  const RowOfMatrix x(o.residual.rank != 0 ? o.sum : o.x, row), y(o.y, row);
  alignas(64) float from[kPiece], to[kPiece];
  Lanes lanes;
  for (std::int64_t first = 0; first < o.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.cols - first);
    if (o.residual.rank != 0) add_residual(pieces, o, row, first, count);
    pieces.square(lanes, x.read(first, count, from), count);
  }
  const float rstd = 1 / std::sqrt(total_of(lanes) / static_cast<float>(o.cols) + o.eps);
  if (o.rstd.rank != 0) static_cast<float*>(o.rstd.data)[row] = rstd;
  for (std::int64_t first = 0; first < o.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.cols - first);
    float* const target = y.target(first, to);
    pieces.scale(x.read(first, count, from), o.weight == nullptr ? nullptr : o.weight + first, rstd, target, count);
    y.write(first, count, target);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const TensorView weight = named("weight");
  const std::unique_ptr<float[]> factors = weights_of(weight, s.zero_centred, s.cols);
  if (factors == nullptr) {
    return with_hint(
        make_error(ErrorCode::kIo, "{}: no memory for {} floats of weights", problem.problem_case.text(), s.cols),
        "free some memory");
  }
  const Operands o{named("x"),    named("residual"),
                   named("y"),    named("sum"),
                   named("rstd"), weight.rank == 0 ? nullptr : factors.get(),
                   s.cols,        static_cast<float>(arguments.scalar(problem, kEps).real())};
  const Pieces& pieces = best_pieces();
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) normalise_row(pieces, o, row);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "two passes over every row in cache, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::rmsnorm
