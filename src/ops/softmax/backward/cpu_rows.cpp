// Rows in pieces of 2048 numbers that stay in the first-level cache between the conversions to and from fp32: one pass
// for the sum of a row, and one for its gradients, which reads from the second-level cache. Every thread takes a run of
// rows. Bound by memory from a few megabytes up, log_softmax in 16 bits by the exponential.
#include "ops/softmax/cpu_rows.h"

#include "device/cpu/thread_pool.h"
#include "ops/softmax/backward/backward.h"

namespace ridge::ops::softmax_backward {
namespace {

using softmax::kPiece;
using softmax::Pieces;

struct Work {
  const Pieces& pieces;
  softmax::Shape s;
  TensorView dy, y, x, lse, dx;
  float scale;
};

// Of softmax the sum of dy y, of log_softmax that of dy.
float sum_of_row(const Work& w, std::int64_t row) {
  const RowOfMatrix dy(w.dy, row), y(w.y, row);
  alignas(64) float a[kPiece], b[kPiece];
  Lanes lanes;
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    const float* const slopes = dy.read(first, count, a);
    if (w.s.form == SoftmaxForm::kSoftmax) {
      w.pieces.products(slopes, y.read(first, count, b), lanes, count);
    } else {
      w.pieces.sum(slopes, lanes, count);
    }
  }
  return total_of(lanes);
}

void differentiate_row(const Work& w, std::int64_t row) {
  const RowOfMatrix dy(w.dy, row), y(w.y, row), dx(w.dx, row);
  const float sum = sum_of_row(w, row);
  const auto gradient = w.s.form == SoftmaxForm::kSoftmax ? w.pieces.of_shares : w.pieces.of_logs;
  alignas(64) float a[kPiece], b[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    float* const out = dx.target(first, to);
    gradient(dy.read(first, count, a), y.read(first, count, b), sum, w.scale, out, count);
    dx.write(first, count, out);
  }
}

// Of logsumexp.
void differentiate_sum(const Work& w, std::int64_t row) {
  const RowOfMatrix x(w.x, row), dx(w.dx, row);
  const float lse = static_cast<const float*>(w.lse.data)[row];
  const float slope = w.scale * static_cast<const float*>(w.dy.data)[row];
  alignas(64) float memory[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    float* const out = dx.target(first, to);
    w.pieces.of_sum(softmax::scaled_piece(w.pieces, x, first, count, w.scale, memory), lse, slope, out, count);
    dx.write(first, count, out);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const Work work{softmax::best_pieces(),
                  softmax::shape_of(problem),
                  named("dy"),
                  named("y"),
                  named("x"),
                  named("lse"),
                  named("dx"),
                  softmax::scale_of(problem, arguments)};
  const int threads = softmax::threads_of(work.s, stream);
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = work.s.rows * (thread + 1) / threads;
    for (std::int64_t row = work.s.rows * thread / threads; row < last; ++row) {
      work.s.form == SoftmaxForm::kLogSumExp ? differentiate_sum(work, row) : differentiate_row(work, row);
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in cache, read once from memory, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::softmax_backward
