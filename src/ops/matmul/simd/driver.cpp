#include "ops/matmul/simd/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "device/cpu/cpu_info.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/matmul/simd/blocks.h"

namespace ridge::ops::matmul::simd {
namespace {

// Blocks, by what must stay close while it is reused.
constexpr Index kStepsWhole = 768;         // k up to here is summed in one go, beyond in equal blocks
constexpr Index kBBytes = 1 << 20;         // packed block of B, for which the bands of A take turns
constexpr Index kKeptBytes = 8 << 20;      // packed A up to here is packed once, larger ones for every strip of C
constexpr Index kSumsBytes = 8 << 20;      // fp32 sums of a strip of a narrow C
constexpr Index kVectorUnit = 64;          // columns that a thread takes at least of a product of few rows
constexpr Index kWorkPerThread = 1 << 17;  // products below which a second thread costs more than it brings

// Of one core; those of a small processor where the machine does not say.
Index second_level_bytes() {
  static const Index bytes = std::max<Index>(device::cpu::cpu_info().l2_bytes, 512 << 10);
  return bytes;
}

struct Workspace {
  Scratch a, b, c;
};

Element element_of(DType dtype) { return dtype == DType::kF32 ? kF32 : dtype == DType::kBf16 ? kBf16 : kF16; }
Index bytes_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// The part of C one thread computes. Lengths along k are in steps of the kernels.
class Block {
 public:
  Block(const KernelSet& kernels, const Arguments& g, Range rows, Range cols)
      : kernels_(kernels), g_(g), rows_(rows), cols_(cols), k_(ceil_div(g.k, kernels.depth)) {
    const Index l2 = second_level_bytes();
    const Index blocks = k_ <= kStepsWhole ? 1 : ceil_div(k_, kernels.block);
    steps_ = ceil_div(ceil_div(k_, blocks), 16) * 16;
    const Index tall = std::max<Index>(l2 * 7 / 32 / 4 / steps_ / kernels.max_rows, 1) * kernels.max_rows;
    const Index bands = ceil_div(rows_.size(), tall);
    band_ = ceil_div(ceil_div(rows_.size(), bands), kernels.max_rows) * kernels.max_rows;
    panel_ = kernels.lanes * kernels.max_vectors;
    strip_ = std::max<Index>(kBBytes / 4 / steps_ / panel_, 1) * panel_;
    const Index in_place = l2 * 3 / 8 / 4 / k_;
    const Index bytes = bytes_of(g.dtype);
    const bool crowded = !g.trans_a && g.a_stride * bytes % 4096 == 0 && g.k * bytes > 2048;
    direct_a_ = is_steps(g) && !crowded && rows_.size() <= in_place;
    direct_b_ = g.dtype == DType::kF32 && !g.trans_b && cols_.size() <= in_place;
    one_band_ = bands == 1;
    kept_a_ = rows_.size() * k_ * 4 <= kKeptBytes;
    // Sums of a narrow C wait in a scratch where k is cut, so many rows of them at a time.
    waits_ = g.out != DType::kF32 && k_ > steps_;
    slab_ = waits_ ? std::max<Index>(kSumsBytes / 4 / strip_ / band_, 1) * band_ : rows_.size();
    slab_ = std::min(slab_, rows_.size());
    // An odd number of lines, so that rows of sums do not share sets of the first-level cache.
    sums_stride_ = (ceil_div(std::min(strip_, cols_.size()), kernels.lanes) | 1) * kernels.lanes;
    far_c_ = rows_.size() * cols_.size() * 4 > l2 / 8;
  }

  // False when there is no memory.
  bool run() {
    static thread_local Workspace workspace;
    if (!reserve(workspace)) return false;
    for (Index i = rows_.begin; i < rows_.end; i += slab_) {
      for (Index j = cols_.begin; j < cols_.end; j += strip_) {
        run_strip({i, std::min(rows_.end, i + slab_)}, {j, std::min(cols_.end, j + strip_)});
      }
    }
    return true;
  }

 private:
  bool reserve(Workspace& work) {
    const Index spare = kernels_.lanes;  // packing may write beyond the end
    packed_a_ = direct_a_ ? nullptr : work.a.floats((kept_a_ ? rows_.size() * k_ : band_ * steps_) + spare);
    const Index panels = std::min(strip_, ceil_div(cols_.size(), panel_) * panel_);
    packed_b_ = direct_b_ ? nullptr : work.b.floats(panels * steps_ + spare);
    sums_ = waits_ ? work.c.floats(slab_ * sums_stride_) : nullptr;
    return (direct_a_ || packed_a_ != nullptr) && (direct_b_ || packed_b_ != nullptr) && (!waits_ || sums_ != nullptr);
  }

  // Whether A as it is stored is steps of the kernels: of fp32, or pairs of a row, none of which is half of another
  // row.
  [[nodiscard]] bool is_steps(const Arguments& g) const {
    if (kernels_.depth == 1) return g.dtype == DType::kF32;
    const bool aligned = reinterpret_cast<std::uintptr_t>(g.a) % sizeof(float) == 0;
    return aligned && !g.trans_a && g.k % kernels_.depth == 0 && g.a_stride % kernels_.depth == 0;
  }
  [[nodiscard]] Index elements(Range steps) const {
    return std::min(g_.k, steps.end * kernels_.depth) - steps.begin * kernels_.depth;
  }
  [[nodiscard]] const char* a_at(Index i, Index step) const {
    const Index p = step * kernels_.depth;
    return static_cast<const char*>(g_.a) +
           (g_.trans_a ? p * g_.a_stride + i : i * g_.a_stride + p) * bytes_of(g_.dtype);
  }
  [[nodiscard]] const char* b_at(Index step, Index j) const {
    const Index p = step * kernels_.depth;
    return static_cast<const char*>(g_.b) +
           (g_.trans_b ? j * g_.b_stride + p : p * g_.b_stride + j) * bytes_of(g_.dtype);
  }

  // All blocks of k of a strip of columns. The first band packs a block of B, panel by panel, just before it uses them.
  // Sums of a narrow C leave with the last block.
  void run_strip(Range rows, Range strip) {
    const bool in_place = g_.out == DType::kF32;
    for (Index p = 0; p < k_; p += steps_) {
      const Range steps{p, std::min(k_, p + steps_)};
      Tile tile;
      tile.k = steps.size();
      tile.add = p > 0 || (in_place && g_.accumulate);
      tile.fetch_c = steps.size() >= 32 && far_c_;
      tile.c_stride = in_place ? g_.c_stride : sums_stride_;
      tile.narrow_stride = g_.c_stride;
      tile.narrow_as = element_of(g_.out);
      tile.add_old = g_.accumulate;
      for (Index i = rows.begin; i < rows.end; i += band_) {
        const Range band{i, std::min(rows.end, i + band_)};
        const float* const a = direct_a_ ? reinterpret_cast<const float*>(a_at(i, p)) : packed_a(band, steps, strip);
        tile.c = in_place ? static_cast<float*>(g_.c) + i * g_.c_stride + strip.begin
                          : moved(sums_, (i - rows.begin) * sums_stride_);
        if (!in_place && steps.end == k_) {
          tile.narrow = static_cast<std::uint16_t*>(g_.c) + i * g_.c_stride + strip.begin;
        }
        run_band(band, strip, steps, a, tile, i == rows.begin);
      }
    }
  }

  // Null stays null: sums that need no scratch have none.
  template <class T>
  static T* moved(T* from, Index by) {
    return from == nullptr ? nullptr : from + by;
  }

  // A panel of a block of B, of `cols` columns.
  void pack_b(Index j, Index cols, Range steps, float* to) const {
    const Element element = element_of(g_.dtype);
    const Pack pack = g_.trans_b ? kernels_.transpose[element] : kernels_.interleave[element];
    pack(b_at(steps.begin, j), g_.b_stride, elements(steps), static_cast<int>(cols), static_cast<int>(panel_), to);
  }

  // Has tile `t` prefetch its share of the panel that is packed after panel j: four tiles bring all of it.
  void fetch_next(Range strip, Range steps, Index j, Index t, Tile& tile) const {
    constexpr Index kTiles = 4, kLine = 64;
    Index step = steps.begin;
    j += panel_;
    if (j >= strip.end && steps.end < k_) {
      step = steps.end;
      j = strip.begin;
    } else if (j >= strip.end) {
      step = 0;
    }
    const Index row = g_.b_stride * bytes_of(g_.dtype);
    if (g_.trans_b) {  // rows of the panel, line after line
      const Index rows = panel_ / kTiles;
      tile.fetch = b_at(step, j + t * rows);
      tile.fetch_shift = __builtin_ctzll(static_cast<unsigned long long>(rows));
      tile.fetch_near = row;
      tile.fetch_far = kLine;
    } else {  // steps, of two lines each
      tile.fetch = b_at(step + t * (steps.size() / kTiles), j);
      tile.fetch_shift = 1;
      tile.fetch_near = kernels_.depth == 2 ? row : kLine;
      tile.fetch_far = row * kernels_.depth;
    }
    tile.fetch_mask = (1 << tile.fetch_shift) - 1;
    if (t >= kTiles || j >= cols_.end) {
      tile.fetch = reinterpret_cast<const char*>(tile.b);
      tile.fetch_near = tile.fetch_far = 0;
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

  // A block of A, each tile's rows together: packed for the first strip if it is kept.
  const float* packed_a(Range band, Range steps, Range strip) {
    float* const packed =
        packed_a_ + (kept_a_ ? steps.begin * rows_.size() + (band.begin - rows_.begin) * steps.size() : 0);
    if (kept_a_ && strip.begin > cols_.begin) return packed;
    const Element element = element_of(g_.dtype);
    const Pack pack = g_.trans_a ? kernels_.interleave[element] : kernels_.transpose[element];
    const Tiles tiles = tiles_of(band);
    float* to = packed;
    Index row = band.begin;
    for (Index t = 0; t < tiles.count; ++t) {
      const Index height = tiles.height(t);
      pack(a_at(row, steps.begin), g_.a_stride, elements(steps), static_cast<int>(height), static_cast<int>(height),
           to);
      row += height;
      to += height * steps.size();
    }
    return packed;
  }

  // Every panel of a block of B against every tile of a block of A, which stays in L2. `first`: B is not packed yet.
  // `to` says where the sums of the band's first tile go.
  void run_band(Range band, Range strip, Range steps, const float* a, const Tile& to, bool first) {
    const Tiles tiles = tiles_of(band);
    const AMode mode = direct_a_ && !g_.trans_a ? kAByRow : kAByStep;
    const Index row_steps = g_.a_stride / kernels_.depth;
    Tile tile = to;
    tile.b_stride = direct_b_ ? g_.b_stride : panel_;
    for (Index j = strip.begin; j < strip.end; j += panel_) {
      const Index cols = std::min(panel_, strip.end - j);
      const auto& kernels = kernels_.tile[mode][cols % kernels_.lanes != 0][ceil_div(cols, kernels_.lanes) - 1];
      float* const packed = packed_b_ + (one_band_ ? 0 : (j - strip.begin) * steps.size());
      if (!direct_b_ && first) pack_b(j, cols, steps, packed);
      tile.cols = static_cast<int>(cols);
      tile.b = direct_b_ ? reinterpret_cast<const float*>(b_at(steps.begin, j)) : packed;
      tile.fetch = reinterpret_cast<const char*>(tile.b);
      tile.a = a;
      tile.c = moved(to.c, j - strip.begin);
      tile.narrow = moved(to.narrow, j - strip.begin);
      for (Index t = 0; t < tiles.count; ++t) {
        const Index height = tiles.height(t);
        tile.a_stride = direct_a_ ? row_steps : height;
        if (!direct_b_ && first) fetch_next(strip, steps, j, t, tile);
        kernels[height - 1](tile);
        tile.a += height * (direct_a_ ? (g_.trans_a ? 1 : row_steps) : steps.size());
        tile.c = moved(tile.c, height * tile.c_stride);
        tile.narrow = moved(tile.narrow, height * tile.narrow_stride);
      }
    }
  }

  const KernelSet& kernels_;
  const Arguments& g_;
  Range rows_, cols_;
  Index k_ = 0, steps_ = 0, band_ = 0, panel_ = 0, strip_ = 0, slab_ = 0, sums_stride_ = 0;
  bool one_band_ = false, waits_ = false, direct_a_ = false, direct_b_ = false, kept_a_ = false, far_c_ = false;
  float *packed_a_ = nullptr, *packed_b_ = nullptr, *sums_ = nullptr;
};

// C or its transpose as few rows times a matrix, which is read once, as it is stored.
struct ThinProduct {
  const char* x = nullptr;  // element (i, p) at i * x_row + p * x_step
  Index rows = 0, x_row = 0, x_step = 0;
  const char* matrix = nullptr;  // element (p, j) at j * stride + p (along k), or at p * stride + j
  Index cols = 0, stride = 0;
  bool along = false;
  char* c = nullptr;  // element (i, j) at i * c_row + j * c_col
  Index c_row = 0, c_col = 0;
  bool transposed = false;  // its columns are the rows of C

  // One row is read across as well; more are worth it along k, while three tiles or less hold them.
  [[nodiscard]] bool worthwhile(const KernelSet& kernels) const {
    return rows == 1 || (along && rows <= 3 * kernels.lanes / kDotCols);
  }
};

ThinProduct as_thin(const KernelSet& kernels, const Arguments& g) {
  const auto* const a = static_cast<const char*>(g.a);
  const auto* const b = static_cast<const char*>(g.b);
  auto* const c = static_cast<char*>(g.c);
  const ThinProduct rows{.x = a,
                         .rows = g.m,
                         .x_row = g.trans_a ? 1 : g.a_stride,
                         .x_step = g.trans_a ? g.a_stride : 1,
                         .matrix = b,
                         .cols = g.n,
                         .stride = g.b_stride,
                         .along = g.trans_b,
                         .c = c,
                         .c_row = g.c_stride,
                         .c_col = 1,
                         .transposed = false};
  if (rows.worthwhile(kernels)) return rows;
  return {.x = b,
          .rows = g.n,
          .x_row = g.trans_b ? g.b_stride : 1,
          .x_step = g.trans_b ? 1 : g.b_stride,
          .matrix = a,
          .cols = g.m,
          .stride = g.a_stride,
          .along = !g.trans_a,
          .c = c,
          .c_row = 1,
          .c_col = g.c_stride,
          .transposed = true};
}

template <std::size_t kBytes>
void copy_strided(const char* from, Index from_step, char* to, Index to_step, Index count) {
  constexpr auto kStep = static_cast<Index>(kBytes);
  for (Index i = 0; i < count; ++i) std::memcpy(to + i * to_step * kStep, from + i * from_step * kStep, kBytes);
}

// `count` values of 2 or 4 bytes, `from_step` and `to_step` of them apart.
void copy_strided(const char* from, Index from_step, char* to, Index to_step, Index count, Index bytes) {
  (bytes == 4 ? copy_strided<4> : copy_strided<2>)(from, from_step, to, to_step, count);
}

class Thin {
 public:
  Thin(const KernelSet& kernels, const Arguments& g, const ThinProduct& thin, Range cols)
      : kernels_(kernels), g_(g), thin_(thin), cols_(cols), in_(bytes_of(g.dtype)), out_(bytes_of(g.out)) {}

  // False when there is no memory.
  bool run() {
    static thread_local Scratch steps, sums, row;
    const Index depth = thin_.along ? kernels_.depth : 1,
                width = ceil_div(ceil_div(g_.k, depth), kernels_.lanes) * kernels_.lanes;
    float* const x = steps.floats(thin_.rows * width);
    float* const out = sums.floats(thin_.rows * cols_.size());
    // A row of x, and then of the old C, as it is stored; and the latter widened.
    char* const stored = static_cast<char*>(row.get(4 * g_.k + 8 * cols_.size() + 64));
    if (x == nullptr || out == nullptr || stored == nullptr) return false;
    for (Index i = 0; i < thin_.rows; ++i) load_steps(i, depth, width, stored, x + i * width);
    FewRows f;
    f.x = x;
    f.x_stride = width;
    f.rows = thin_.rows;
    f.cols = cols_.size();
    f.k = g_.k;
    f.matrix = thin_.matrix + cols_.begin * (thin_.along ? thin_.stride : 1) * in_;
    f.stride = thin_.stride;
    f.out = out;
    f.out_stride = cols_.size();
    (thin_.along ? kernels_.along : kernels_.across)[element_of(g_.dtype)](f);
    for (Index i = 0; i < thin_.rows; ++i) finish(i, out + i * cols_.size(), stored);
    return true;
  }

 private:
  void load_steps(Index i, Index depth, Index width, char* stored, float* x) const {
    const char* const from = thin_.x + i * thin_.x_row * in_;
    auto* const bytes = reinterpret_cast<char*>(x);
    if (depth > 1) {
      copy_strided(from, thin_.x_step, bytes, 1, g_.k, in_);
      std::memset(bytes + g_.k * in_, 0, static_cast<std::size_t>(width * 4 - g_.k * in_));
      return;
    }
    if (thin_.x_step != 1) copy_strided(from, thin_.x_step, stored, 1, g_.k, in_);
    numerics::to_float(g_.dtype, thin_.x_step == 1 ? from : stored, x, g_.k);
    std::fill(x + g_.k, x + width, 0.0f);
  }

  void finish(Index i, float* sums, char* stored) const {
    const Index count = cols_.size();
    char* const c = thin_.c + (i * thin_.c_row + cols_.begin * thin_.c_col) * out_;
    const bool apart = thin_.c_col != 1;
    if (g_.accumulate) {
      if (apart) copy_strided(c, thin_.c_col, stored, 1, count, out_);
      auto* const old = reinterpret_cast<float*>(stored + ceil_div(4 * count, 64) * 64);
      numerics::to_float(g_.out, apart ? stored : c, old, count);
      for (Index j = 0; j < count; ++j) sums[j] += old[j];
    }
    numerics::from_float(g_.out, sums, apart ? stored : c, count);
    if (apart) copy_strided(stored, 1, c, thin_.c_col, count, out_);
  }

  const KernelSet& kernels_;
  const Arguments& g_;
  const ThinProduct& thin_;
  Range cols_;
  Index in_, out_;
};

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
    if (avx512_kernels() != nullptr && cpu.has_avx512()) {
      return *avx512_kernels();
    }
    if (avx2_kernels() != nullptr && cpu.has_avx2()) return *avx2_kernels();
    return portable_kernels();
  }();
  return best;
}

const std::string& bf16dot_missing() {
  static const std::string why = []() -> std::string {
    if (bf16dot_kernels() == nullptr) return "built by a compiler without AVX512-BF16";
    for (const char* feature : {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"}) {
      if (!device::cpu::cpu_info().has(feature))
        return fmt::format("the processor has no {}, or may not use it", feature);
    }
    return {};
  }();
  return why;
}

bool bf16dot_at_full_rate() { return bf16dot_missing().empty() && device::cpu::cpu_info().vendor == "AuthenticAMD"; }

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
  const ThinProduct thin = as_thin(kernels, g);
  if (thin.worthwhile(kernels)) {
    const Grid unit = thin.transposed ? Grid{kVectorUnit, thin.rows} : Grid{thin.rows, kVectorUnit};
    return run_in_pieces(g, unit, kWorkPerThread, threads, [&](Range rows, Range cols) {
      return Thin(kernels, g, thin, thin.transposed ? rows : cols).run();
    });
  }
  return run_in_pieces(g, {kernels.max_rows, kernels.lanes}, kWorkPerThread, threads,
                       [&](Range rows, Range cols) { return Block(kernels, g, rows, cols).run(); });
}

}  // namespace ridge::ops::matmul::simd
