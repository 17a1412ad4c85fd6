// Rows in pieces of 2048 numbers that stay in the first-level cache. The first pass makes the powers of a piece beside
// its own largest number and, for softmax, keeps them in fp32: in y if that is f32, else in a row of scratch memory.
// The second multiplies them, from the second-level cache, by the share that its piece has of the whole row; for
// log_softmax it reads x again. So an exponential is made once. Every thread takes a run of rows. Bound by memory from
// a few megabytes up in f32, by the exponential in 16 bits; a single row is the work of one thread.
#include "ops/softmax/cpu_rows.h"

#include <cmath>

#include "device/cpu/thread_pool.h"

namespace ridge::ops::softmax {
namespace {

struct Work {
  const Pieces& pieces;
  Shape s;
  TensorView x, y, lse;
  float scale;
};
// What one thread keeps of its row: powers, and of each piece the largest number, beside which they were made.
struct Scratch {
  float *powers = nullptr, *most = nullptr;
};
// The largest number, and the sum of the powers beside it.
struct Found {
  float most = -INFINITY, sum = 0;
};

std::int64_t pieces_of(std::int64_t cols) { return (cols + kPiece - 1) / kPiece; }
bool keeps(const Shape& s) { return s.form == SoftmaxForm::kSoftmax; }
std::int64_t scratch_of(const Shape& s) { return (s.cols + pieces_of(s.cols) + 15) / 16 * 16; }

std::size_t workspace_bytes(const Problem& problem, const Stream& stream) {
  const Shape s = shape_of(problem);
  if (!keeps(s)) return 0;
  return static_cast<std::size_t>(threads_of(s, stream) * scratch_of(s)) * sizeof(float);
}

float power(const Pieces& pieces, float z) {
  Lanes lanes;
  pieces.powers(&z, 0, nullptr, lanes, 1);
  return lanes.value[0];
}

void add(const Pieces& pieces, Found& to, const Found& piece) {
  if (piece.most > to.most) {
    to.sum = to.sum * power(pieces, to.most - piece.most) + piece.sum;
    to.most = piece.most;
  } else {
    to.sum += std::isfinite(to.most) ? piece.sum * power(pieces, piece.most - to.most) : piece.sum;
  }
}

Found read_row(const Work& w, std::int64_t row, const Scratch& kept) {
  const RowOfMatrix x(w.x, row);
  Found found;
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    const float* const z = scaled_piece(w.pieces, x, first, count, w.scale, memory);
    Found piece{w.pieces.largest(z, count), 0};
    float* e = nullptr;
    if (keeps(w.s)) {
      e = RowOfMatrix(w.y, row).target(first, kept.powers + first);
      kept.most[first / kPiece] = piece.most;
    }
    Lanes lanes;
    w.pieces.powers(z, std::isfinite(piece.most) ? piece.most : 0, e, lanes, count);
    piece.sum = piece.most == INFINITY ? NAN : total_of(lanes);
    add(w.pieces, found, piece);
  }
  return found;
}

void fill_row(const Work& w, std::int64_t row, float value) {
  const RowOfMatrix y(w.y, row);
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    float* const out = y.target(first, memory);
    std::fill_n(out, count, value);
    y.write(first, count, out);
  }
}

void write_shares(const Work& w, std::int64_t row, const Found& found, const Scratch& kept) {
  const RowOfMatrix y(w.y, row);
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    const float share = power(w.pieces, kept.most[first / kPiece] - found.most) / found.sum;
    float* const out = y.target(first, memory);
    w.pieces.scale(y.target(first, kept.powers + first), share, out, count);
    y.write(first, count, out);
  }
}

void write_logs(const Work& w, std::int64_t row, const Found& found) {
  const RowOfMatrix x(w.x, row), y(w.y, row);
  const float log_sum = std::log(found.sum);
  alignas(64) float memory[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    float* const out = y.target(first, to);
    w.pieces.logs(scaled_piece(w.pieces, x, first, count, w.scale, memory), found.most, log_sum, out, count);
    y.write(first, count, out);
  }
}

// Of a row with +infinity: whether it has a NaN besides.
bool has_nan(const Work& w, std::int64_t row) {
  const RowOfMatrix x(w.x, row);
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    const float* const z = scaled_piece(w.pieces, x, first, count, w.scale, memory);
    if (std::any_of(z, z + count, [](float one) { return std::isnan(one); })) return true;
  }
  return false;
}

void do_row(const Work& w, std::int64_t row, const Scratch& kept) {
  const Found found = read_row(w, row, kept);
  const bool proper = std::isfinite(found.most) && !std::isnan(found.sum);
  if (w.s.form == SoftmaxForm::kLogSumExp) {
    float lse = found.most + std::log(found.sum);
    if (found.most == INFINITY) lse = has_nan(w, row) ? NAN : INFINITY;
    static_cast<float*>(w.lse.data)[row] = lse;
    return;
  }
  if (!proper) return fill_row(w, row, NAN);
  keeps(w.s) ? write_shares(w, row, found, kept) : write_logs(w, row, found);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Work work{best_pieces(),
                  shape_of(problem),
                  operand(problem, arguments, "x"),
                  operand(problem, arguments, "y"),
                  operand(problem, arguments, "lse"),
                  scale_of(problem, arguments)};
  const Shape& s = work.s;
  const int threads = threads_of(s, stream);
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Scratch kept;
    if (keeps(s)) {
      kept.powers = reinterpret_cast<float*>(arguments.workspace.data()) + thread * scratch_of(s);
      kept.most = kept.powers + s.cols;
    }
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) do_row(work, row, kept);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in cache; a number is read once from memory and its exponential made once";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  own.workspace_bytes = workspace_bytes;
  return own;
}

}  // namespace ridge::ops::softmax
