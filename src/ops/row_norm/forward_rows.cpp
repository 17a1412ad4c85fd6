// Rows in turns of two passes, in pieces of 1024 numbers that stay in the first-level cache: sums and squares, then the
// products. The second pass reads the row from the second-level cache and converts it again, which costs less than
// keeping it in fp32. Where there is a mean, sums and squares are those of the distances from a number of the row near
// its mean; a row whose first numbers lie far from it takes both once more from a nearer one, so that nothing cancels.
// Every thread takes a run of rows. Bound by memory from a few megabytes up; short rows pay for their calls.
#include <algorithm>
#include <cmath>

#include "device/cpu/thread_pool.h"
#include "ops/row_norm/cpu_rows.h"

namespace ridge::ops::row_norm {
namespace {

struct Operands {
  TensorView x, residual, y, sum, mean, rstd;
  const float *weight = nullptr, *bias = nullptr;  // null: 1 and 0
  std::int64_t cols = 0;
  float eps = 0;
  bool centred = false;
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

// Calls use(numbers, first, count) for every piece of a row, and before that make(first, count).
template <class Use, class Make>
void in_pieces(const RowOfMatrix& x, std::int64_t cols, const Use& use, const Make& make) {
  alignas(64) float from[kPiece];
  for (std::int64_t first = 0; first < cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, cols - first);
    make(first, count);
    use(x.read(first, count, from), first, count);
  }
}
template <class Use>
void in_pieces(const RowOfMatrix& x, std::int64_t cols, const Use& use) {
  in_pieces(x, cols, use, [](std::int64_t, std::int64_t) {});
}

// A number near the mean if the row's first numbers are: equal numbers give just that one. It is finite if the first
// one is, so that an infinity further on gives an infinite mean.
float near_mean(const float* x, std::int64_t count) {
  const std::int64_t some = std::min<std::int64_t>(count, 64);
  float away = 0;
  for (std::int64_t j = 1; j < some; ++j) away += x[j] - x[0];
  const float near = x[0] + away / static_cast<float>(some);
  return std::isfinite(near) ? near : x[0];
}

struct Statistics {
  Centre centre;
  float square = 0;  // the mean of the squares of what is left
};

// What pieces add up to, in fp64: terms that are alike round alike, piece after piece.
struct Moments {
  double sum = 0, squares = 0;
  void add(const Pieces& pieces, const float* numbers, float shift, std::int64_t count) {
    Lanes sums, of_squares;
    pieces.moments(sums, of_squares, numbers, shift, count);
    sum += total_of(sums);
    squares += total_of(of_squares);
  }
  [[nodiscard]] Statistics statistics(float shift, double length) const {
    const double rest = sum / length;
    return {{shift, static_cast<float>(rest)}, static_cast<float>(squares / length - rest * rest)};
  }
};

Statistics statistics_of(const Pieces& pieces, const Operands& o, std::int64_t row, const RowOfMatrix& x) {
  const auto length = static_cast<double>(o.cols);
  Lanes squares;
  Moments moments;
  float shift = 0;
  const auto add_up = [&](const float* numbers, std::int64_t first, std::int64_t count) {
    if (!o.centred) return pieces.square(squares, numbers, count);
    if (first == 0) shift = near_mean(numbers, count);
    moments.add(pieces, numbers, shift, count);
  };
  in_pieces(x, o.cols, add_up, [&](std::int64_t first, std::int64_t count) {
    if (o.residual.rank != 0) add_residual(pieces, o, row, first, count);
  });
  if (!o.centred) return {{}, total_of(squares) / static_cast<float>(o.cols)};
  const double rest = moments.sum / length;
  if (!(4 * rest * rest > moments.squares / length)) return moments.statistics(shift, length);
  shift += static_cast<float>(rest);
  moments = {};
  in_pieces(x, o.cols, [&](const float* numbers, std::int64_t, std::int64_t count) {
    moments.add(pieces, numbers, shift, count);
  });
  return moments.statistics(shift, length);
}

// Writes the sum and the statistics of a row. Returns its factor.
float measure_row(const Pieces& pieces, const Operands& o, std::int64_t row, const RowOfMatrix& x, Statistics& s) {
  s = statistics_of(pieces, o, row, x);
  const float rstd = 1 / std::sqrt(s.square + o.eps);
  if (o.rstd.rank != 0) static_cast<float*>(o.rstd.data)[row] = rstd;
  if (o.mean.rank != 0) static_cast<float*>(o.mean.data)[row] = s.centre.shift + s.centre.rest;
  return rstd;
}

void normalise_row(const Pieces& pieces, const Operands& o, std::int64_t row) {
  const RowOfMatrix x(o.residual.rank != 0 ? o.sum : o.x, row), y(o.y, row);
  Statistics s;
  const float rstd = measure_row(pieces, o, row, x, s);
  alignas(64) float to[kPiece];
  in_pieces(x, o.cols, [&](const float* numbers, std::int64_t first, std::int64_t count) {
    float* const target = y.target(first, to);
    pieces.scale(numbers, o.centred ? &s.centre : nullptr, rstd, o.weight == nullptr ? nullptr : o.weight + first,
                 o.bias == nullptr ? nullptr : o.bias + first, target, count);
    y.write(first, count, target);
  });
}

// Every thread takes a run of rows.
template <class TakeRow>
void each_row(std::int64_t rows, const Stream& stream, const TakeRow& take) {
  const int threads = static_cast<int>(std::clamp<std::int64_t>(rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = rows * (thread + 1) / threads;
    for (std::int64_t row = rows * thread / threads; row < last; ++row) take(row);
  });
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream, bool centred) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  RIDGE_TRY(weight, columns_of(problem, named("weight"), s.zero_centred ? 1.0F : 0.0F));
  RIDGE_TRY(bias, columns_of(problem, named("bias"), 0));
  const Operands o{named("x"),    named("residual"),
                   named("y"),    named("sum"),
                   named("mean"), named("rstd"),
                   weight.get(),  bias.get(),
                   s.cols,        static_cast<float>(arguments.scalar(problem, kEps).real()),
                   centred};
  const Pieces& pieces = best_pieces();
  each_row(s.rows, stream, [&](std::int64_t row) { normalise_row(pieces, o, row); });
  return ok_status();
}

}  // namespace

Status write_statistics(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  Operands o;
  o.x = named("x"), o.residual = named("residual"), o.sum = named("sum"), o.rstd = named("rstd");
  o.cols = problem.values[kCols], o.eps = static_cast<float>(arguments.scalar(problem, kEps).real());
  const Pieces& pieces = best_pieces();
  each_row(problem.values[kRows], stream, [&](std::int64_t row) {
    Statistics s;
    measure_row(pieces, o, row, RowOfMatrix(o.residual.rank != 0 ? o.sum : o.x, row), s);
  });
  return ok_status();
}

Implementation forward_rows(const Kind& kind) {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "two passes over every row in cache, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = [centred = kind.mean](const Problem& problem, const Arguments& arguments, const Stream& stream) {
    return run(problem, arguments, stream, centred);
  };
  return own;
}

}  // namespace ridge::ops::row_norm
