// Rows in turns of two passes, in pieces of 1024 numbers that stay in the first-level cache: the products, then dx and
// the terms of dweight, which a strip of rows adds up in a row of its own. Strips depend on the shape alone, and their
// sums are added in their order, so that equal calls give equal bits whatever the number of threads. Bound by memory
// from a few megabytes up.
#include "ops/rmsnorm/cpu_rows.h"

#include <algorithm>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {
namespace {

using rmsnorm::best_pieces;
using rmsnorm::kPiece;
using rmsnorm::Pieces;

// As many as there may be threads; a strip of less than 16 rows would cost more than its sums.
std::int64_t strips_of(const Shape& s) { return std::clamp<std::int64_t>(s.rows / 16, 1, 64); }

std::size_t workspace_bytes(const Problem& problem, const Stream&) {
  const Shape s = shape_of(problem);
  return s.dweight ? static_cast<std::size_t>(strips_of(s) * s.cols) * sizeof(float) : 0;
}

struct Operands {
  TensorView dy, x, rstd, dsum, dx, dweight;
  const float* weight = nullptr;  // null: 1
  std::int64_t cols = 0;
};

// mean(dy w x) rstd^2 of a row
float common_term(const Pieces& pieces, const Operands& o, std::int64_t row, float rstd) {
  const RowOfMatrix dy(o.dy, row), x(o.x, row);
  alignas(64) float a[kPiece], b[kPiece];
  Lanes lanes;
  for (std::int64_t first = 0; first < o.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.cols - first);
    pieces.product(lanes, dy.read(first, count, a), o.weight == nullptr ? nullptr : o.weight + first,
                   x.read(first, count, b), count);
  }
  return total_of(lanes) / static_cast<float>(o.cols) * rstd * rstd;
}

// `total`: the strip's terms of dweight; null: not wanted.
void differentiate_row(const Pieces& pieces, const Operands& o, std::int64_t row, float* total) {
  const float rstd = static_cast<const float*>(o.rstd.data)[row];
  const float c = o.dx.rank != 0 ? common_term(pieces, o, row, rstd) : 0;
  const RowOfMatrix dy(o.dy, row), x(o.x, row);
  alignas(64) float a[kPiece], b[kPiece], more[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < o.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.cols - first);
    const float *const g = dy.read(first, count, a), *const v = x.read(first, count, b);
    if (total != nullptr) pieces.weight(g, v, rstd, total + first, count);
    if (o.dx.rank == 0) continue;
    const RowOfMatrix dx(o.dx, row);
    const float* const added = o.dsum.rank == 0 ? nullptr : RowOfMatrix(o.dsum, row).read(first, count, more);
    float* const target = dx.target(first, to);
    pieces.gradient(g, o.weight == nullptr ? nullptr : o.weight + first, v, c, rstd, added, target, count);
    dx.write(first, count, target);
  }
}

void add_strips(const Shape& s, const TensorView& dweight, const float* strips, int threads) {
  const std::int64_t pieces = (s.cols + kPiece - 1) / kPiece;
  device::cpu::thread_pool().run(threads, [&](int thread) {
    float total[kPiece];
    for (std::int64_t piece = thread; piece < pieces; piece += threads) {
      const std::int64_t first = piece * kPiece, count = std::min(kPiece, s.cols - first);
      std::copy_n(strips + first, count, total);
      for (std::int64_t strip = 1; strip < strips_of(s); ++strip) {
        for (std::int64_t j = 0; j < count; ++j) total[j] += strips[strip * s.cols + first + j];
      }
      numerics::from_float(dweight.dtype, total,
                           static_cast<unsigned char*>(dweight.data) + size_bytes(dweight.dtype, first), count);
    }
  });
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const TensorView weight = named("weight");
  const std::unique_ptr<float[]> factors = rmsnorm::weights_of(weight, s.zero_centred, s.cols);
  if (factors == nullptr) {
    return with_hint(
        make_error(ErrorCode::kIo, "{}: no memory for {} floats of weights", problem.problem_case.text(), s.cols),
        "free some memory");
  }
  const Operands o{named("dy"),
                   named("x"),
                   named("rstd"),
                   named("dsum"),
                   named("dx"),
                   named("dweight"),
                   weight.rank == 0 ? nullptr : factors.get(),
                   s.cols};
  const Pieces& pieces = best_pieces();
  const std::int64_t strips = strips_of(s);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(strips, 1, std::max(stream.threads, 1)));
  float* const sums = s.dweight ? reinterpret_cast<float*>(arguments.workspace.data()) : nullptr;
  device::cpu::thread_pool().run(threads, [&](int thread) {
    for (std::int64_t strip = thread; strip < strips; strip += threads) {
      float* const total = sums == nullptr ? nullptr : sums + strip * s.cols;
      if (total != nullptr) std::fill_n(total, s.cols, 0.0F);
      const std::int64_t last = s.rows * (strip + 1) / strips;
      for (std::int64_t row = s.rows * strip / strips; row < last; ++row) differentiate_row(pieces, o, row, total);
    }
  });
  if (s.dweight) add_strips(s, o.dweight, sums, threads);
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
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

}  // namespace ridge::ops::rmsnorm_backward
