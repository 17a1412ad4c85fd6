// Rows in turns of two passes, in pieces of 1024 numbers that stay in the first-level cache: the products, then dx and
// the terms of dweight and dbias, which a strip of rows adds up in rows of its own. Strips depend on the shape alone,
// and their sums are added in their order, so that equal calls give equal bits whatever the number of threads. Bound by
// memory from a few megabytes up.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "ops/row_norm/cpu_rows.h"

namespace ridge::ops::row_norm {
namespace {

// As many as there may be threads; a strip of less than 16 rows would cost more than its sums.
std::int64_t strips_of(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 16, 1, 64); }

// The sums that are wanted, of each strip one after the other.
std::int64_t sums_of(const Problem& problem) {
  return (problem.position("dweight") ? 1 : 0) + (problem.position("dbias") ? 1 : 0);
}

std::size_t workspace_bytes(const Problem& problem, const Stream&) {
  const std::int64_t rows = problem.values[kRows], cols = problem.values[kCols];
  return static_cast<std::size_t>(sums_of(problem) * strips_of(rows) * cols) * sizeof(float);
}

struct Operands {
  TensorView dy, x, mean, rstd, dsum, dx;
  const float* weight = nullptr;  // null: 1
  std::int64_t cols = 0;
};
// Of one strip; null: not wanted.
struct Sums {
  float *weight = nullptr, *bias = nullptr;
};
// What all elements of a row have in common: the mean of dy w, and mean(dy w (x - mean)) rstd^2.
struct Common {
  float plain = 0, product = 0;
};

Common common_terms(const Pieces& pieces, const Operands& o, std::int64_t row, const float* mean, float rstd) {
  const RowOfMatrix dy(o.dy, row), x(o.x, row);
  alignas(64) float a[kPiece], b[kPiece];
  Lanes products, plain;
  for (std::int64_t first = 0; first < o.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.cols - first);
    pieces.product(products, plain, dy.read(first, count, a), o.weight == nullptr ? nullptr : o.weight + first,
                   x.read(first, count, b), mean, count);
  }
  const auto length = static_cast<float>(o.cols);
  return {mean == nullptr ? 0 : total_of(plain) / length, total_of(products) / length * rstd * rstd};
}

void differentiate_row(const Pieces& pieces, const Operands& o, std::int64_t row, const Sums& sums) {
  const float rstd = static_cast<const float*>(o.rstd.data)[row];
  const float* const mean = o.mean.rank == 0 ? nullptr : static_cast<const float*>(o.mean.data) + row;
  const Common c = o.dx.rank != 0 ? common_terms(pieces, o, row, mean, rstd) : Common{};
  const RowOfMatrix dy(o.dy, row), x(o.x, row);
  alignas(64) float a[kPiece], b[kPiece], more[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < o.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.cols - first);
    const float *const g = dy.read(first, count, a), *const v = x.read(first, count, b);
    if (sums.weight != nullptr) pieces.weight(g, v, mean, rstd, sums.weight + first, count);
    if (sums.bias != nullptr) pieces.add(sums.bias + first, g, sums.bias + first, count);
    if (o.dx.rank == 0) continue;
    const RowOfMatrix dx(o.dx, row);
    const float* const added = o.dsum.rank == 0 ? nullptr : RowOfMatrix(o.dsum, row).read(first, count, more);
    float* const target = dx.target(first, to);
    pieces.gradient(g, o.weight == nullptr ? nullptr : o.weight + first, v, mean, c.plain, c.product, rstd, added,
                    target, count);
    dx.write(first, count, target);
  }
}

void add_strips(const TensorView& gradient, const float* strips, std::int64_t count_of_strips, int threads) {
  const std::int64_t cols = gradient.shape[0], pieces = (cols + kPiece - 1) / kPiece;
  device::cpu::thread_pool().run(threads, [&](int thread) {
    float total[kPiece];
    for (std::int64_t piece = thread; piece < pieces; piece += threads) {
      const std::int64_t first = piece * kPiece, count = std::min(kPiece, cols - first);
      std::copy_n(strips + first, count, total);
      for (std::int64_t strip = 1; strip < count_of_strips; ++strip) {
        for (std::int64_t j = 0; j < count; ++j) total[j] += strips[strip * cols + first + j];
      }
      numerics::from_float(gradient.dtype, total,
                           static_cast<unsigned char*>(gradient.data) + size_bytes(gradient.dtype, first), count);
    }
  });
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const std::int64_t rows = problem.values[kRows], cols = problem.values[kCols];
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  RIDGE_TRY(weight, columns_of(problem, named("weight"), problem.values[kZeroCentred] == 1 ? 1.0F : 0.0F));
  const Operands o{named("dy"),   named("x"),  named("mean"), named("rstd"),
                   named("dsum"), named("dx"), weight.get(),  cols};
  const TensorView dweight = named("dweight"), dbias = named("dbias");
  const Pieces& pieces = best_pieces();
  const std::int64_t strips = strips_of(rows);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(strips, 1, std::max(stream.threads, 1)));
  auto* const memory = reinterpret_cast<float*>(arguments.workspace.data());
  const Sums all{dweight.rank != 0 ? memory : nullptr,
                 dbias.rank != 0 ? memory + (dweight.rank != 0 ? strips * cols : 0) : nullptr};
  const auto of_strip = [&](float* sums, std::int64_t strip) {
    if (sums == nullptr) return sums;
    std::fill_n(sums + strip * cols, cols, 0.0F);
    return sums + strip * cols;
  };
  device::cpu::thread_pool().run(threads, [&](int thread) {
    for (std::int64_t strip = thread; strip < strips; strip += threads) {
      const Sums sums{of_strip(all.weight, strip), of_strip(all.bias, strip)};
      const std::int64_t last = rows * (strip + 1) / strips;
      for (std::int64_t row = rows * strip / strips; row < last; ++row) differentiate_row(pieces, o, row, sums);
    }
  });
  if (all.weight != nullptr) add_strips(dweight, all.weight, strips, threads);
  if (all.bias != nullptr) add_strips(dbias, all.bias, strips, threads);
  return ok_status();
}

}  // namespace

Implementation backward_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary =
      "two passes over every row in cache; strips of rows add up dweight, and strips are added in their order";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  own.workspace_bytes = workspace_bytes;
  return own;
}

}  // namespace ridge::ops::row_norm
