// The tokens are sorted by their ids, which is two passes over the ids; then every row of dw is added up and written
// once, in pieces of 2048 columns that stay in the first-level cache. Threads take runs of rows with as much to read
// and write each. Bound by memory; the sort is the work of one thread, and takes 1 % of the time from rows of 1 KiB on.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "ops/embedding_backward/embedding_backward.h"
#include "ops/embedding_backward/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::embedding_backward {
namespace {

struct Work {
  const Pieces& pieces;
  Shape s;
  const Sorted& order;
  TensorView dy, dw;
};

// Columns first .. first + count of the tokens of a row, in fp32.
void add_up(const Work& w, std::int64_t v, std::int64_t first, std::int64_t count, float* sum) {
  alignas(64) float memory[kPiece];
  std::fill_n(sum, count, 0.0F);
  const std::int64_t* const begin = w.order.tokens.data();
  const auto at = static_cast<std::size_t>(v);
  for (const std::int64_t* token = begin + w.order.first[at]; token != begin + w.order.first[at + 1]; ++token) {
    w.pieces.add(RowOfMatrix(w.dy, *token).read(first, count, memory), sum, count);
  }
}

void write_row(const Work& w, std::int64_t v) {
  const auto at = static_cast<std::size_t>(v);
  const RowOfMatrix row(w.dw, v);
  if (w.s.accumulate && w.order.first[at] == w.order.first[at + 1]) return;
  alignas(64) float memory[kPiece], old[kPiece];
  for (std::int64_t first = 0; first < w.s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, w.s.cols - first);
    float* const out = w.s.accumulate ? memory : row.target(first, memory);
    add_up(w, v, first, count, out);
    if (w.s.accumulate) {  // to where it is added
      const float* const before = row.read(first, count, old);
      float* const to = row.target(first, old);
      if (to != before) std::copy_n(before, count, to);
      w.pieces.add(out, to, count);
      row.write(first, count, to);
    } else {
      row.write(first, count, out);
    }
  }
}

// The first row of a thread: rows are shared out by the rows of dy and dw that they move.
std::int64_t first_row(const Work& w, int thread, int threads) {
  const auto moved = [&](std::int64_t v) { return w.order.first[static_cast<std::size_t>(v)] + v; };
  const std::int64_t wanted = moved(w.s.vocabulary) * thread / threads;
  std::int64_t low = 0, high = w.s.vocabulary;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    moved(middle) < wanted ? low = middle + 1 : high = middle;
  }
  return low;
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_TRY(order, sorted(problem, arguments));
  const Work work{best_pieces(), shape_of(problem), order, arguments[kDy], arguments[kDw]};
  const int threads = static_cast<int>(std::clamp<std::int64_t>(work.s.vocabulary, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = first_row(work, thread + 1, threads);
    for (std::int64_t v = first_row(work, thread, threads); v < last; ++v) write_row(work, v);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "tokens sorted by their ids, then every row of dw added up in cache and written once";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::embedding_backward
