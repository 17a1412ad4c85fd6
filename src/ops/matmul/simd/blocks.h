// What the blockings of the CPU products share: ranges, pieces for threads, and packing memory.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ridge::ops::matmul::simd {

using Index = std::int64_t;

inline Index ceil_div(Index x, Index y) { return (x + y - 1) / y; }

struct Range {
  Index begin = 0, end = 0;
  [[nodiscard]] Index size() const { return end - begin; }
};

// Piece `index` of [0, total) cut into `parts` nearly equal ones at multiples of `unit`.
inline Range piece(Index total, Index unit, Index parts, Index index) {
  const Index units = ceil_div(total, unit);
  return {std::min(total, units * index / parts * unit), std::min(total, units * (index + 1) / parts * unit)};
}

// Memory a thread keeps from call to call: fresh pages for every call would cost more than the packing itself.
class Scratch {
 public:
  // On 64 bytes; null when there is no memory.
  void* get(Index bytes) {
    constexpr Index kHugePage = 2 << 20;
    if (bytes > capacity_) {
      // Large buffers on huge pages: panels of many small pages outgrow the first-level TLB.
      const Index page = bytes >= kHugePage / 4 ? kHugePage : 4096;
      const auto size = static_cast<std::size_t>(ceil_div(bytes, page) * page);
      memory_.reset(std::aligned_alloc(static_cast<std::size_t>(page), size));
      if (memory_ && page == kHugePage) madvise(memory_.get(), size, MADV_HUGEPAGE);  // a refusal only costs speed
      capacity_ = memory_ ? static_cast<Index>(size) : 0;
    }
    return memory_.get();
  }
  float* floats(Index count) { return static_cast<float*>(get(count * 4)); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  Index capacity_ = 0;
};

// How many pieces rows and columns are cut into: one per thread, never along k, so that every element keeps its order
// of summation; each piece as square as possible, so that little is packed twice.
struct Grid {
  Index rows = 1, cols = 1;
};
// `unit`: the sums that a kernel makes at once. A thread is worth `work` products or more.
inline Grid choose_grid(Index m, Index n, Index k, Grid unit, double work, int threads) {
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto useful = static_cast<Index>(std::min(products / work, 1024.0));
  const Index wanted = std::clamp<Index>(threads, 1, std::max<Index>(useful, 1));
  Grid best;
  double best_cost = 0;
  for (Index pieces = 1; pieces <= wanted; ++pieces) {
    if (wanted % pieces != 0) continue;
    const Grid grid{pieces, wanted / pieces};
    const auto rows = static_cast<double>(ceil_div(ceil_div(m, unit.rows), grid.rows) * unit.rows);
    const auto cols = static_cast<double>(ceil_div(ceil_div(n, unit.cols), grid.cols) * unit.cols);
    const double cost = rows * cols + 6.0 * (rows + cols);  // tiles, and packing of both sides
    if (pieces == 1 || cost < best_cost) {
      best = grid;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace ridge::ops::matmul::simd
