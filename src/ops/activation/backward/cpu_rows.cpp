// Rows in pieces of 1024 numbers that stay in the first-level cache between the conversions to and from fp32; all
// gradients of a piece are made while it is there. Every thread takes a run of rows. Bound by memory from a few
// megabytes up.
#include "ops/activation/cpu_rows.h"

#include "device/cpu/thread_pool.h"
#include "ops/activation/backward/backward.h"

namespace ridge::ops::activation_backward {
namespace {

using activation::Factors;
using activation::Gradients;
using activation::kPiece;
using activation::Pieces;
using activation::Shape;

struct Operands {
  TensorView dy, x, up, probs, mask, dx, dup, dprobs;
};

// Where the numbers of an output go: of one that is not wanted into memory that is not read.
struct Output {
  const TensorView& matrix;
  std::int64_t row;

  float* target(std::int64_t first, float* memory) const {
    return matrix.rank == 0 ? memory : RowOfMatrix(matrix, row).target(first, memory);
  }
  void write(std::int64_t first, std::int64_t count, const float* from) const {
    if (matrix.rank != 0) RowOfMatrix(matrix, row).write(first, count, from);
  }
};

float differentiate_row(const Pieces& pieces, const Shape& s, const Factors& factors, const Operands& o,
                        std::int64_t row) {
  const RowOfMatrix dy(o.dy, row), x(o.x, row), up(s.gated ? o.up : o.x, row);
  const Output dx{o.dx, row}, dup{o.dup, row};
  alignas(64) float a[kPiece], b[kPiece], c[kPiece], to_x[kPiece], to_up[kPiece];
  Lanes lanes;
  for (std::int64_t first = 0; first < s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, s.cols - first);
    const Gradients piece{dy.read(first, count, a), x.read(first, count, b),
                          s.gated ? up.read(first, count, c) : nullptr, dx.target(first, to_x),
                          dup.target(first, to_up)};
    pieces.backward(s.function, factors, piece, lanes, count);
    dx.write(first, count, piece.dx);
    dup.write(first, count, piece.dup);
  }
  return total_of(lanes);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const Operands o{named("dy"),   named("x"),  named("up"),  named("probs"),
                   named("mask"), named("dx"), named("dup"), named("dprobs")};
  const Pieces& pieces = activation::best_pieces();
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Factors factors = activation::factors_of(problem, arguments);
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) {
      const bool masked = s.mask && static_cast<const std::uint8_t*>(o.mask.data)[row] == 0;
      factors.probs = s.probs ? static_cast<const float*>(o.probs.data)[row] : 1;
      const float sum = masked ? 0 : differentiate_row(pieces, s, factors, o, row);
      if (o.dprobs.rank != 0) static_cast<float*>(o.dprobs.data)[row] = sum;
      if (!masked) continue;
      for (const TensorView* output : {&o.dx, &o.dup}) {
        if (output->rank != 0) activation::clear_row(RowOfMatrix(*output, row), s.cols);
      }
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in cache, all gradients in one pass, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::activation_backward
