#include "ops/matmul/amx/driver.h"

#include <algorithm>

#include "device/cpu/matrix_unit.h"
#include "ops/matmul/amx/kernels.h"

namespace ridge::ops::matmul::amx {
namespace {

using simd::Arguments;
using simd::ceil_div;
using simd::Index;
using simd::Range;
using simd::Scratch;

// Blocks, by what must stay close while it is reused. Sizes measured on a Xeon with 48 KB of L1 and 2 MB of L2 per
// core.
constexpr Index kTilesWhole = 12;           // along k: up to here summed in one go ...
constexpr Index kTilesBlock = 9;            // ... beyond, in equal blocks of at most this: 32 columns of B stay in L1
constexpr Index kRowsBand = 256;            // of A, whose blocks stay in L2 with their sums ...
constexpr Index kColsStrip = 128;           // ... of these columns
constexpr Index kABytes = 16 << 20;         // packed A: a share of L3
constexpr Index kBBytes = 16 << 20;         // packed B: the same
constexpr double kWorkPerThread = 1 << 20;  // products below which a second thread costs more than it brings

struct Workspace {
  Scratch a, b, c;
};

// The part of C one thread computes.
class Block {
 public:
  Block(const Kernels& kernels, const Arguments& g, Range rows, Range cols)
      : kernels_(kernels), g_(g), rows_(rows), cols_(cols), tiles_(ceil_div(g.k, kDepth)) {
    const Index blocks = tiles_ <= kTilesWhole ? 1 : ceil_div(tiles_, kTilesBlock);
    block_ = ceil_div(tiles_, blocks);
    const auto fits = [&](Index bytes, Index unit) {
      return std::max<Index>(bytes / (panel_bytes() / kSide) / unit, 1) * unit;
    };
    band_ = std::min(kRowsBand, fits(kABytes, kPair));
    slab_ = rows_.size() <= band_ ? kColsStrip : fits(kBBytes, kColsStrip);
  }

  // False when there is no memory.
  bool run() {
    static thread_local Workspace workspace;
    if (!reserve(workspace)) return false;
    kernels_.begin();
    for (Index j = cols_.begin; j < cols_.end; j += slab_) {
      const Range cols{j, std::min(cols_.end, j + slab_)};
      pack(kernels_.b_along, kernels_.b_across, g_.b, g_.b_stride, g_.trans_b, cols, packed_b_);
      for (Index i = rows_.begin; i < rows_.end; i += band_) run_band({i, std::min(rows_.end, i + band_)}, cols);
    }
    kernels_.end();
    return true;
  }

 private:
  [[nodiscard]] Index panel_bytes() const { return tiles_ * kTileBytes; }

  bool reserve(Workspace& work) {
    const Index band = ceil_div(std::min(band_, rows_.size()), kPair) * kPair;
    const Index slab = ceil_div(std::min(slab_, cols_.size()), kPair) * kPair;
    packed_a_ = static_cast<char*>(work.a.get(band / kSide * panel_bytes()));
    packed_b_ = static_cast<char*>(work.b.get(slab / kSide * panel_bytes()));
    sums_ = work.c.floats(band * std::min(slab, kColsStrip));
    return packed_a_ != nullptr && packed_b_ != nullptr && sums_ != nullptr;
  }

  // Panels of 16, all of k each, one behind the other. `is_along`: neighbours along k are stored side by side.
  void pack(Kernels::Pack along, Kernels::Pack across, const void* stored, Index stride, bool is_along, Range range,
            char* to) const {
    for (Index i = range.begin; i < range.end; i += kPair, to += 2 * panel_bytes()) {
      const std::uint16_t* from = static_cast<const std::uint16_t*>(stored) + (is_along ? i * stride : i);
      (is_along ? along : across)(from, stride, static_cast<int>(std::min(kPair, range.end - i)), g_.k, to,
                                  panel_bytes());
    }
  }

  void run_band(Range rows, Range cols) {
    if (cols.begin == cols_.begin || rows_.size() > band_) {
      pack(kernels_.a_along, kernels_.a_across, g_.a, g_.a_stride, !g_.trans_a, rows, packed_a_);
    }
    for (Index j = cols.begin; j < cols.end; j += kColsStrip) {
      const Range strip{j, std::min(cols.end, j + kColsStrip)};
      const char* const b = packed_b_ + (j - cols.begin) / kSide * panel_bytes();
      for (Index tile = 0; tile < tiles_; tile += block_) run_block(rows, strip, b, tile);
    }
  }

  // One block of k: every pair of panels of B against every pair of A.
  void run_block(Range rows, Range strip, const char* b, Index tile) {
    Job job;
    job.tiles = std::min(block_, tiles_ - tile);
    job.add = tile > 0;
    job.sums = sums_;
    const bool last = tile + job.tiles == tiles_, keep = tiles_ > block_;
    b += tile * kTileBytes;
    for (Index j = strip.begin; j < strip.end; j += kPair, b += 2 * panel_bytes()) {
      const Index cols = std::min(kPair, strip.end - j);
      job.b[0] = b;
      job.b[1] = b + panel_bytes();
      const char* a = packed_a_ + tile * kTileBytes;
      for (Index i = rows.begin; i < rows.end; i += kPair, a += 2 * panel_bytes()) {
        const Index height = std::min(kPair, rows.end - i);
        job.a[0] = a;
        job.a[1] = a + panel_bytes();
        kernels_.job[height > kSide][cols > kSide](job);
        if (last) finish(i, j, height, cols, job.sums);
        if (keep) job.sums += kPair * kPair;
      }
    }
  }

  void finish(Index i, Index j, Index height, Index cols, const float* sums) const {
    const Index at = i * g_.c_stride + j;
    const bool narrow = g_.out == DType::kBf16;
    void* const c = static_cast<char*>(g_.c) + at * (narrow ? 2 : 4);
    (narrow ? kernels_.to_bf16 : kernels_.to_f32)(sums, height, cols, g_.accumulate, c, g_.c_stride);
  }

  const Kernels& kernels_;
  const Arguments& g_;
  Range rows_, cols_;
  Index tiles_, block_ = 0, band_ = 0, slab_ = 0;
  char *packed_a_ = nullptr, *packed_b_ = nullptr;
  float* sums_ = nullptr;
};

}  // namespace

const std::string& unusable() {
  static const std::string compiler = "built by a compiler without AMX";
  return amx_kernels() == nullptr ? compiler : device::cpu::matrix_unit_missing();
}

bool run(const Arguments& g, int threads) {
  if (g.m == 1 || g.n == 1)
    return simd::run(simd::best_kernels(), g, threads);  // bound by memory: packing would cost more
  return simd::run_in_pieces(g, {kPair, kPair}, kWorkPerThread, threads,
                             [&](Range rows, Range cols) { return Block(*amx_kernels(), g, rows, cols).run(); });
}

}  // namespace ridge::ops::matmul::amx
