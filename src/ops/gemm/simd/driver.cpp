#include "ops/gemm/simd/driver.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "device/cpu/cpu_info.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/gemm/simd/blocks.h"

namespace ridge::ops::gemm::simd {
namespace {

// Blocks, by what must stay close while it is reused. Sizes measured on a Xeon with 2 MB of L2 per core.
constexpr Index kStepsWhole = 768;         // k up to here is summed in one go ...
constexpr Index kStepsBlock = 512;         // ... beyond, in equal blocks of at most this
constexpr Index kABytes = 448 << 10;       // packed block of A: a quarter of L2
constexpr Index kColsBlock = 512;          // columns of C revisited by all blocks of k while they are in L2
constexpr Index kBBytes = 32 << 20;        // packed B: a share of L3
constexpr Index kDirectBytes = 768 << 10;  // an operand below this is read in place, unpacked
constexpr Index kFarBytes = 256 << 10;     // a C above this is not in L1 or L2 when its tile is stored
constexpr Index kVectorUnit = 64;          // columns of a row of C that a thread takes at least
constexpr Index kWorkPerThread = 1 << 17;  // products below which a second thread costs more than it brings

struct Workspace {
  Scratch a, b, c, row;
};

Element element_of(DType dtype) { return dtype == DType::kF32 ? kF32 : dtype == DType::kBf16 ? kBf16 : kF16; }

// The part of C one thread computes.
class Block {
 public:
  Block(const KernelSet& kernels, const Arguments& g, Range rows, Range cols)
      : kernels_(kernels), g_(g), rows_(rows), cols_(cols), bytes_(g.dtype == DType::kF32 ? 4 : 2) {
    const Index blocks = g.k <= kStepsWhole ? 1 : ceil_div(g.k, kStepsBlock);
    steps_ = ceil_div(ceil_div(g.k, blocks), 16) * 16;
    const Index tall = std::max<Index>(kABytes / 4 / steps_ / kernels.max_rows, 1) * kernels.max_rows;
    const Index bands = ceil_div(rows_.size(), tall);
    band_ = ceil_div(ceil_div(rows_.size(), bands), kernels.max_rows) * kernels.max_rows;
    panel_ = kernels.lanes * kernels.max_vectors;
    slab_ = std::max(kBBytes / 4 / g.k / panel_, Index{1}) * panel_;
    const bool f32 = g.dtype == DType::kF32;
    const bool crowded = !g.trans_a && g.a_stride * 4 % 4096 == 0 && g.k > 512;
    direct_a_ = f32 && !crowded && rows_.size() * g.k * bytes_ <= kDirectBytes;

    direct_b_ = f32 && !g.trans_b && cols_.size() * g.k * bytes_ <= kDirectBytes;
    just_in_time_ = bands == 1 && !direct_b_;
  }

  // False when there is no memory.
  bool run() {
    static thread_local Workspace workspace;
    if (!reserve(workspace)) return false;
    for (Index j = cols_.begin; j < cols_.end; j += slab_) {
      const Range cols{j, std::min(cols_.end, j + slab_)};
      if (!direct_b_ && !just_in_time_) pack_b(cols);
      for (Index i = rows_.begin; i < rows_.end; i += band_) run_band({i, std::min(rows_.end, i + band_)}, cols);
    }
    return true;
  }

 private:
  bool reserve(Workspace& work) {
    const Index height = std::min(band_, rows_.size()),
                width = std::min(slab_, ceil_div(cols_.size(), panel_) * panel_);
    const bool narrow_out = g_.out != DType::kF32;
    packed_a_ = direct_a_ ? nullptr : work.a.floats(height * g_.k + kernels_.lanes);
    packed_b_ = direct_b_ ? nullptr : work.b.floats(width * g_.k + kernels_.lanes);
    sums_ = narrow_out ? work.c.floats(height * kColsBlock) : nullptr;
    old_ = narrow_out ? work.row.floats(kColsBlock) : nullptr;
    return (direct_a_ || packed_a_ != nullptr) && (direct_b_ || packed_b_ != nullptr) &&
           (!narrow_out || (sums_ != nullptr && old_ != nullptr));
  }

  [[nodiscard]] const char* a_at(Index i, Index p) const {
    return static_cast<const char*>(g_.a) + (g_.trans_a ? p * g_.a_stride + i : i * g_.a_stride + p) * bytes_;
  }
  [[nodiscard]] const char* b_at(Index p, Index j) const {
    return static_cast<const char*>(g_.b) + (g_.trans_b ? j * g_.b_stride + p : p * g_.b_stride + j) * bytes_;
  }

  // Panels of panel_ columns, all of k each, one behind the other.
  void pack_b(Range cols) {
    const Element element = element_of(g_.dtype);
    const Pack pack = g_.trans_b ? kernels_.transpose[element] : kernels_.interleave[element];
    float* to = packed_b_;
    for (Index j = cols.begin; j < cols.end; j += panel_, to += panel_ * g_.k) {
      const int width = static_cast<int>(std::min(panel_, cols.end - j));
      pack(b_at(0, j), g_.b_stride, g_.k, width, static_cast<int>(panel_), to);
    }
  }

  // One block of k of a strip, packed just before its only use, so that it never leaves L2.
  void pack_b_block(Range strip, Range steps) {
    const Element element = element_of(g_.dtype);
    const Pack pack = g_.trans_b ? kernels_.transpose[element] : kernels_.interleave[element];
    float* to = packed_b_;
    for (Index j = strip.begin; j < strip.end; j += panel_, to += panel_ * steps.size()) {
      const int width = static_cast<int>(std::min(panel_, strip.end - j));
      pack(b_at(steps.begin, j), g_.b_stride, steps.size(), width, static_cast<int>(panel_), to);
    }
  }

  // Rows of the tiles of a band: nearly equal, so that no tile is left with too few sums to hide the FMA latency.
  struct Tiles {
    Index count = 0, rows = 0, taller = 0;  // the first `taller` tiles have one row more
    [[nodiscard]] Index height(Index t) const { return rows + (t < taller ? 1 : 0); }
  };
  [[nodiscard]] Tiles tiles_of(Range rows) const {
    const Index count = ceil_div(rows.size(), kernels_.max_rows);
    return {count, rows.size() / count, rows.size() % count};
  }

  // The whole of k for a band, block after block of k, each tile's rows together.
  void pack_a(Range rows) {
    const Element element = element_of(g_.dtype);
    const Pack pack = g_.trans_a ? kernels_.interleave[element] : kernels_.transpose[element];
    const Tiles tiles = tiles_of(rows);
    for (Index p = 0; p < g_.k; p += steps_) {
      const Index steps = std::min(steps_, g_.k - p);
      float* to = packed_a_ + p * rows.size();
      Index row = rows.begin;
      for (Index t = 0; t < tiles.count; ++t) {
        const Index height = tiles.height(t);
        pack(a_at(row, p), g_.a_stride, steps, static_cast<int>(height), static_cast<int>(height), to);
        row += height;
        to += height * steps;
      }
    }
  }

  void run_band(Range rows, Range cols) {
    if (!direct_a_) pack_a(rows);
    const bool in_place = g_.out == DType::kF32;
    for (Index j = cols.begin; j < cols.end; j += kColsBlock) {
      const Range strip{j, std::min(cols.end, j + kColsBlock)};
      float* const c = in_place ? static_cast<float*>(g_.c) + rows.begin * g_.c_stride + strip.begin : sums_;
      const Index c_stride = in_place ? g_.c_stride : kColsBlock;
      for (Index p = 0; p < g_.k; p += steps_) {
        if (just_in_time_) pack_b_block(strip, {p, std::min(g_.k, p + steps_)});
        const bool add = p > 0 || (in_place && g_.accumulate);
        run_steps(rows, strip, cols.begin, {p, std::min(g_.k, p + steps_)}, c, c_stride, add);
      }
      if (!in_place) round_out(rows, strip);
    }
  }

  // One block of k: every panel of B against every tile of A, which stays in L2.
  void run_steps(Range rows, Range strip, Index first_col, Range steps, float* c, Index c_stride, bool add) {
    const Tiles tiles = tiles_of(rows);
    const AMode mode = direct_a_ && !g_.trans_a ? kAByRow : kAByStep;
    Tile tile;
    tile.k = steps.size();
    tile.add = add;
    tile.fetch_c = steps.size() >= 32 && rows_.size() * cols_.size() * 4 > kFarBytes;
    tile.c_stride = c_stride;
    for (Index j = strip.begin; j < strip.end; j += panel_) {
      const Index cols = std::min(panel_, strip.end - j);
      const auto& kernels = kernels_.tile[mode][cols % kernels_.lanes != 0][ceil_div(cols, kernels_.lanes) - 1];
      tile.cols = static_cast<int>(cols);
      tile.b_stride = direct_b_ ? g_.b_stride : panel_;
      tile.b = direct_b_       ? reinterpret_cast<const float*>(b_at(steps.begin, j))
               : just_in_time_ ? packed_b_ + (j - strip.begin) * steps.size()
                               : packed_b_ + (j - first_col) * g_.k + steps.begin * panel_;
      tile.a = direct_a_ ? reinterpret_cast<const float*>(a_at(rows.begin, steps.begin))
                         : packed_a_ + steps.begin * rows.size();
      tile.c = c + (j - strip.begin);
      for (Index t = 0; t < tiles.count; ++t) {
        const Index height = tiles.height(t);
        tile.a_stride = direct_a_ ? g_.a_stride : height;
        kernels[height - 1](tile);
        tile.a += height * (direct_a_ ? (g_.trans_a ? 1 : g_.a_stride) : steps.size());
        tile.c += height * c_stride;
      }
    }
  }

  // C in bf16 or f16: fp32 sums, plus the old content, rounded once.
  void round_out(Range rows, Range strip) {
    float* sums = sums_;
    for (Index i = rows.begin; i < rows.end; ++i, sums += kColsBlock) {
      char* const to = static_cast<char*>(g_.c) + (i * g_.c_stride + strip.begin) * 2;
      if (g_.accumulate) {
        numerics::to_float(g_.out, to, old_, strip.size());
        for (Index j = 0; j < strip.size(); ++j) sums[j] += old_[j];
      }
      numerics::from_float(g_.out, sums, to, strip.size());
    }
  }

  const KernelSet& kernels_;
  const Arguments& g_;
  Range rows_, cols_;
  Index bytes_, steps_ = 0, band_ = 0, panel_ = 0, slab_ = 0;
  bool just_in_time_ = false, direct_a_ = false, direct_b_ = false;
  float *packed_a_ = nullptr, *packed_b_ = nullptr, *sums_ = nullptr, *old_ = nullptr;
};

// A row of C: the row of A, widened, times the matrix as it is stored.
bool multiply_row(const KernelSet& kernels, const Arguments& g, Range cols) {
  static thread_local Scratch widened, sums, old;
  const Element element = element_of(g.dtype);
  const Index bytes = g.dtype == DType::kF32 ? 4 : 2;
  const bool narrow = g.out != DType::kF32;
  float* const x = widened.floats(g.k);
  float* const out = sums.floats(cols.size());
  float* const before = g.accumulate ? old.floats(cols.size()) : nullptr;
  if (x == nullptr || out == nullptr || (g.accumulate && before == nullptr)) return false;
  const auto* const a = static_cast<const char*>(g.a);
  if (g.trans_a) {
    for (Index p = 0; p < g.k; ++p) numerics::to_float(g.dtype, a + p * g.a_stride * bytes, x + p, 1);
  } else {
    numerics::to_float(g.dtype, a, x, g.k);
  }
  const char* const b = static_cast<const char*>(g.b) + (g.trans_b ? cols.begin * g.b_stride : cols.begin) * bytes;
  (g.trans_b ? kernels.along : kernels.across)[element](x, b, g.b_stride, g.k, cols.size(), out);
  char* const c = static_cast<char*>(g.c) + cols.begin * (narrow ? 2 : 4);
  if (g.accumulate) {
    numerics::to_float(g.out, c, before, cols.size());
    for (Index j = 0; j < cols.size(); ++j) out[j] += before[j];
  }
  numerics::from_float(g.out, out, c, cols.size());
  return true;
}

void clear(const Arguments& g) {
  const std::size_t bytes = size_bytes(g.out, g.n);
  for (Index i = 0; i < g.m; ++i) {
    std::memset(static_cast<char*>(g.c) + size_bytes(g.out, i * g.c_stride), 0, bytes);
  }
}

}  // namespace

const KernelSet& best_kernels() {
  static const KernelSet& best = []() -> const KernelSet& {
    const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
    if (avx512_kernels() != nullptr && cpu.has("avx512f") && cpu.has("avx512bw") && cpu.has("avx512dq") &&
        cpu.has("avx512vl")) {
      return *avx512_kernels();
    }
    if (avx2_kernels() != nullptr && cpu.has("avx2") && cpu.has("fma") && cpu.has("f16c")) return *avx2_kernels();
    return portable_kernels();
  }();
  return best;
}

bool run_in_pieces(const Arguments& g, Grid unit, double work, int threads,
                   const std::function<bool(Range rows, Range cols)>& block) {
  if (g.m == 0 || g.n == 0) return true;
  if (g.k == 0) {
    if (!g.accumulate) clear(g);
    return true;
  }
  const Grid grid = choose_grid(g.m, g.n, g.k, unit, work, threads);
  std::atomic<bool> enough_memory{true};
  device::cpu::thread_pool().run(static_cast<int>(grid.rows * grid.cols), [&](int index) {
    const Range rows = piece(g.m, unit.rows, grid.rows, index / grid.cols);
    const Range cols = piece(g.n, unit.cols, grid.cols, index % grid.cols);
    if (rows.size() == 0 || cols.size() == 0) return;
    if (!block(rows, cols)) enough_memory.store(false);
  });
  return enough_memory.load();
}

bool run(const KernelSet& kernels, const Arguments& g, int threads) {
  if (g.m == 1)
    return run_in_pieces(g, {1, kVectorUnit}, kWorkPerThread, threads,
                         [&](Range, Range cols) { return multiply_row(kernels, g, cols); });
  return run_in_pieces(g, {kernels.max_rows, kernels.lanes}, kWorkPerThread, threads,
                       [&](Range rows, Range cols) { return Block(kernels, g, rows, cols).run(); });
}

}  // namespace ridge::ops::gemm::simd
