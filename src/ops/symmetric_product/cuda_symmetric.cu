// Symmetric products on Hopper's tensor cores: the tiles on and above the diagonal, each written twice. The pipeline is
// that of matmul/cuda_wgmma.cu: a producer thread fills a ring of shared-memory stages through the copy engine, with
// rows of A for both sides of a tile, and two warpgroups multiply out of it. A finished slab of 16 rows leaves as it is
// and, turned by stmatrix, as 16 columns below the diagonal; slabs that the diagonal crosses are stored element by
// element, those below it not at all. So no element of C is computed twice, and C is symmetric to the last bit.
//
// Wins from about a hundred tiles up, where it comes to little more than half of gemm's time. Loses below one wave of
// tiles, where gemm has as many multiprocessors idle. Refuses f32, and operands whose rows do not start on 16 bytes.

// clang-format off
/* ridge-kernel
op = "symmetric_product"
# At entry 65536 registers are shared by 384 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
sass = [{ opcode = "HGMMA" }, { opcode = "UTMALDG" }, { opcode = "UTMASTG" }]
[define]
RIDGE_TYPE_A = { value = "dtype - 1", names = ["kBf16", "kF16"] }
RIDGE_TYPE_B = { value = "dtype - 1", names = ["kBf16", "kF16"] }
RIDGE_TYPE_C = { value = "out ? 2 : dtype - 1", names = ["kBf16", "kF16", "kF32"] }
RIDGE_MAJOR_A = { value = "layout", names = ["kK", "kMn"] }
RIDGE_MAJOR_B = { value = "layout", names = ["kK", "kMn"] }
RIDGE_RESIDUAL = { value = "residual" }
[configs]
pp_128x128 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1 }
pp_128x128_m2 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_M = 2 }
pp_128x128_m2n2 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_M = 2, RIDGE_CLUSTER_N = 2 }
coop_128x256_m2 = { RIDGE_BLOCK_N = 256, RIDGE_CLUSTER_M = 2, RIDGE_SLAB_BUFFERS = 2 }
coop_256x128_n2 = { RIDGE_BLOCK_M = 256, RIDGE_CLUSTER_N = 2 }
coop_128x128 = { RIDGE_STAGES = 6 }
pp_128x64 = { RIDGE_BLOCK_N = 64, RIDGE_STAGES = 8, RIDGE_PINGPONG = 1 }
pp_64x64 = { RIDGE_BLOCK_M = 64, RIDGE_BLOCK_N = 64, RIDGE_STAGES = 12, RIDGE_PINGPONG = 1 }
[variants]
n_bf16 = { case = "symmetric_product n=4096 k=4096", every = true }
t_bf16 = { case = "symmetric_product n=4096 k=4096 layout=t", every = true }
n_bf16_residual = { case = "symmetric_product n=4096 k=4096 residual=1", every = true }
n_f16_f32 = { case = "symmetric_product n=4096 k=4096 dtype=f16 out=f32", every = true }
t_bf16_f32_residual = { case = "symmetric_product n=4096 k=4096 layout=t out=f32 residual=1", every = true }
n_f16_residual = { case = "symmetric_product n=1024 k=1024 dtype=f16 residual=1 batch=8" }
*/
/* ridge-launch
[[value]]
name = "tile_rows"
expression = "ceil_div(n, RIDGE_BLOCK_M * RIDGE_CLUSTER_M)"
[[value]]
name = "tile_cols"
expression = "ceil_div(n, RIDGE_BLOCK_N * RIDGE_CLUSTER_N)"
[[value]]
name = "across"
expression = "floor_div(RIDGE_BLOCK_M * RIDGE_CLUSTER_M, RIDGE_BLOCK_N * RIDGE_CLUSTER_N)"
[[value]]
name = "tiles"
expression = "tile_rows * tile_cols - across * floor_div(tile_rows * (tile_rows - 1), 2)"
[[value]]
name = "cluster_blocks"
expression = "RIDGE_CLUSTER_M * RIDGE_CLUSTER_N"
[[value]]
name = "shared_bytes"
expression = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + 16) + RIDGE_SLAB_BUFFERS * 16384"
[[value]]
name = "accumulators"
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * RIDGE_BLOCK_N / 2"

[[needs]]
expression = "dtype > 0"
reason = "the matrix unit has no fp32, and TF32 is never chosen silently"
[[needs]]
expression = "n > 0 && k > 0 && batch > 0"
reason = "an empty product needs no matrix unit"
[[needs]]
expression = "a_align % 16 == 0"
reason = "the copy engine reads rows of A that start on 16 bytes; pad them or allow cuda_symmetric_plain"
[[needs]]
expression = "c_align % 16 == 0 && n * c_bytes % 16 == 0"
reason = "the copy engine writes rows of C that start and end on 16 bytes; pad them or allow cuda_symmetric_plain"
[[needs]]
expression = "align_residual % (2 * c_bytes) == 0"
reason = "the residual is read in pairs: its rows must start on pairs of elements"
[[needs]]
expression = "max(n, k) <= 2147483135 && tiles * batch <= 2147483647"
reason = "sides and tiles are counted in 32 bits"
[[needs]]
expression = "shared_bytes <= 232448"
reason = "a block has 227 KiB of shared memory"
[[needs]]
expression = "accumulators <= 128"
reason = "what a store needs spills beside more accumulators"

[[tensor_map]]
name = "map_rows"
operand = "a"
sizes = ["layout ? n : k", "layout ? k : n", "batch", 1]
strides = ["layout && k == 1 ? 16 : a_stride1 * a_bytes", "batch == 1 ? 16 : a_stride0 * a_bytes", 16]
box = [64, "layout ? (RIDGE_BLOCK_M / 64 % RIDGE_CLUSTER_N == 0 ? 64 : 64 / RIDGE_CLUSTER_N) : RIDGE_BLOCK_M / RIDGE_CLUSTER_N", 1, 1]
l2_promotion = "a_stride1 * a_bytes % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_columns"
operand = "a"
sizes = ["layout ? n : k", "layout ? k : n", "batch", 1]
strides = ["layout && k == 1 ? 16 : a_stride1 * a_bytes", "batch == 1 ? 16 : a_stride0 * a_bytes", 16]
box = [64, "layout ? (RIDGE_BLOCK_N / 64 % RIDGE_CLUSTER_M == 0 ? 64 : 64 / RIDGE_CLUSTER_M) : RIDGE_BLOCK_N / RIDGE_CLUSTER_M", 1, 1]
l2_promotion = "a_stride1 * a_bytes % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_upper"
operand = "c"
sizes = ["n", "n", "batch", 1]
strides = ["c_stride1 * c_bytes", "batch == 1 ? 16 : c_stride0 * c_bytes", 16]
box = ["128 / c_bytes", 16, 1, 1]
[[tensor_map]]
name = "map_lower"
operand = "c"
sizes = ["n", "n", "batch", 1]
strides = ["c_stride1 * c_bytes", "batch == 1 ? 16 : c_stride0 * c_bytes", 16]
box = [16, "128 / c_bytes", 1, 1]
swizzle = 0

[[kernel]]
symbol = "ridge_symmetric_product"
grid = ["min(tiles * batch, max(floor_div(sm_count, cluster_blocks), 1)) * cluster_blocks"]
block = [384]
cluster = ["cluster_blocks"]
shared = "shared_bytes"
args = [
  { tensor_map = "map_rows" }, { tensor_map = "map_columns" }, { tensor_map = "map_upper" }, { tensor_map = "map_lower" },
  { struct = [{ operand = "c" }, { i64 = "c_stride1" }, { u32 = "n" }, { u32 = "n" }] },
  { struct = [{ u32 = "tile_rows" }, { u32 = "tile_cols" }, { u32 = "min(RIDGE_GROUP, tile_rows)" }, { u32 = "tiles" }, { u32 = "batch" }] },
  { u32 = "ceil_div(k, 64)" },
  { struct = [{ operand = "residual", when = "residual" }, { i64 = "row_residual" }, { i64 = "matrix_residual" }, { i64 = "c_stride0" },
              { f32 = "alpha" }, { f32 = "beta" }, { f32 = "shift" }] },
]
*/
/* ridge-tunables
[[tunable]]
name = "RIDGE_BLOCK_M"
values = [64, 128, 256]
default = 128
title = "rows of C of one tile"
effect = "an element of the columns' A brought into shared memory is used so often"
model = "tile m"
group = "tile"
[[tunable]]
name = "RIDGE_BLOCK_N"
values = [64, 128, 192, 256]
default = 128
title = "columns of C of one tile"
effect = "an element of the rows' A brought into shared memory is used so often"
model = "tile n"
group = "tile"
[[tunable]]
name = "RIDGE_STAGES"
values = [3, 4, 5, 6, 8, 12]
default = 4
title = "slices of k on their way through shared memory"
effect = "loads are asked for so many steps ahead of the matrix unit"
category = "pipeline"
model = "stages k"
group = "tile"
[[tunable]]
name = "RIDGE_PINGPONG"
values = [0, 1]
default = 0
kind = "structure"
category = "pipeline"
title = "each warpgroup has a tile of its own"
effect = "one warpgroup stores while the other multiplies"
model = "overlap"
group = "tile"
[[tunable]]
name = "RIDGE_CLUSTER_M"
values = [1, 2]
default = 1
category = "layout"
title = "blocks of a cluster that share their columns"
effect = "columns are read from L2 once for two blocks"
model = "cluster m"
group = "cluster"
[[tunable]]
name = "RIDGE_CLUSTER_N"
values = [1, 2]
default = 1
category = "layout"
title = "blocks of a cluster that share their rows"
effect = "rows are read from L2 once for two blocks"
model = "cluster n"
group = "cluster"
[[tunable]]
name = "RIDGE_GROUP"
values = [1, 2, 4, 8, 16, 32]
default = 8
category = "layout"
title = "rows of tiles of a band, in the order in which tiles are walked"
effect = "tiles in flight form a compact rectangle, which reads less through L2"
model = "walk"
[[tunable]]
name = "RIDGE_SLAB_BUFFERS"
values = [1, 2]
default = 1
category = "pipeline"
title = "buffers of a warp for parts of C on their way out"
effect = "one is filled while the other is stored"
group = "tile"
[[constraint]]
expression = "RIDGE_BLOCK_M * RIDGE_CLUSTER_M % (RIDGE_BLOCK_N * RIDGE_CLUSTER_N) == 0"
reason = "the diagonal leaves a row of tiles at the edge of one"
[[constraint]]
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * RIDGE_BLOCK_N / 2 <= 128"
reason = "beside more sums than 128 what a store needs does not fit a thread's registers"
[[constraint]]
expression = "RIDGE_PINGPONG || RIDGE_BLOCK_M >= 128"
reason = "two warpgroups share the rows of a tile, 64 each or more"
*/
// clang-format on

#include "../../device/cuda/kernel/finish.cuh"
#include "../../device/cuda/kernel/main_loop.cuh"
#include "../../device/cuda/kernel/shared_stage.cuh"
#include "triangle.cuh"

namespace ridge::cuda {

// As the launch plan fills them.
struct TriangleGrid {
  u32 rows, cols;  // cluster tiles of one matrix
  u32 group;       // rows of a band
  u32 tiles;       // of one matrix
  u32 batch;
};
struct SymmetricTerms {
  const void* residual;
  i64 residual_stride, residual_matrix, c_matrix;  // elements between rows, and between matrices
  float alpha, beta, shift;
};

namespace {

struct Config : GemmBuild {
  static constexpr u32 kBlockM = RIDGE_BLOCK_M, kBlockN = RIDGE_BLOCK_N, kStages = RIDGE_STAGES;
  static constexpr u32 kClusterM = RIDGE_CLUSTER_M, kClusterN = RIDGE_CLUSTER_N, kClusterBlocks = kClusterM * kClusterN;
  static constexpr bool kMulticast = kClusterBlocks > 1, kPingpong = RIDGE_PINGPONG != 0;
  static constexpr u32 kSlabBuffers = RIDGE_SLAB_BUFFERS;
  static constexpr u32 kConsumers = 2;  // warpgroups that multiply
  static constexpr u32 kThreads = (kConsumers + 1) * kWarpgroupThreads;

  // One stage is one swizzle row of K: 64 elements.
  static constexpr u32 kBlockK = kRowBytes / kTypeBytes<kTypeA>;
  static constexpr u32 kStageBytesA = kBlockM * kRowBytes, kStageBytesB = kBlockN * kRowBytes;
  static constexpr u32 kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr u32 kRowsPerWarpgroup = kPingpong ? kBlockM : kBlockM / kConsumers;
  static constexpr u32 kSubtiles = kRowsPerWarpgroup / 64;
  static constexpr u32 kWarpsPerTile = kPingpong ? 4 : 4 * kConsumers;
  static constexpr bool kSplitColumnsA = kBlockM / 64 % kClusterN == 0, kSplitColumnsB = kBlockN / 64 % kClusterM == 0;
  static constexpr u32 kAcross =
      kBlockM * kClusterM / (kBlockN * kClusterN);  // tiles beside each other, as high as one

  static_assert(!kEightBit && kTypeA == kTypeB && kMajorA == kMajorB, "both sides are one operand of 16 bits");
  static_assert(kBlockM * kClusterM % (kBlockN * kClusterN) == 0, "the diagonal leaves a row of tiles at an edge");
  static_assert(kRowsPerWarpgroup % 64 == 0, "wgmma computes 64 rows at a time");
  static_assert(kBlockN % 64 == 0, "tiles are whole slabs, and columns of 64 where N is contiguous");
  static_assert((kBlockM / kClusterN) % 8 == 0 && (kBlockN / kClusterM) % 8 == 0, "parts must be whole swizzle atoms");
};

// Shared memory, from a 1024-byte aligned base: stages of rows, stages of columns, output slabs, barriers.
struct SharedLayout {
  static constexpr u32 kA = 0;
  static constexpr u32 kB = kA + Config::kStages * Config::kStageBytesA;
  static constexpr u32 kSlabs = kB + Config::kStages * Config::kStageBytesB;
  static constexpr u32 kBarriers = kSlabs + Config::kConsumers * 4 * Config::kSlabBuffers * kSlabBytes;
  static constexpr u32 kBytes = kBarriers + Ring<Config::kStages>::kBytes;
  static_assert(kBytes <= 232448, "a block has 227 KiB of shared memory: fewer stages, a smaller tile or fewer slabs");
};

// The tiles of one cluster of a persistent grid, matrix after matrix.
struct TriangleWalk {
  TriangleGrid grid;
  u32 tile, step;

  __device__ __forceinline__ bool more() const { return tile < grid.tiles * grid.batch; }
  __device__ __forceinline__ void next() { tile += step; }
  __device__ __forceinline__ TriangleWalk alternating(u32 turn) const { return {grid, tile + turn * step, 2 * step}; }
  __device__ __forceinline__ u32 matrix() const { return tile / grid.tiles; }
  __device__ __forceinline__ TriangleTile at() const {
    return triangle_tile<Config::kAcross>(grid.rows, grid.cols, grid.group, tile % grid.tiles);
  }
};

// One side of a stage.
template <u32 kTileRows, u32 kParts, bool kSplitColumns>
__device__ __forceinline__ void load_side(u32 stage, const TensorMap& map, u32 barrier, i32 k, i32 mn, i32 matrix,
                                          u32 part, u16 mask) {
  load_part<Config, Config::kMajorA, kTileRows, kParts, kSplitColumns>(k, mn, part, [&](u32 offset, i32 x, i32 y) {
    const BoxCorner at{x, y, matrix, 0};
    if constexpr (kParts == 1) {
      load_box(stage + offset, map, barrier, at);
    } else {
      load_box_multicast(stage + offset, map, barrier, at, mask);
    }
  });
}

// The transpose of a slab, 16 elements in a row and no permutation: as many rows as the slab has columns.
template <int kCount>
__device__ __forceinline__ void write_turned_slab(const float (&d)[kCount], int first, u32 buffer, u32 lane) {
  if constexpr (Config::kTypeC == OutputType::kF32) {
#pragma unroll
    for (int i = 0; i < kSlabColumns<Config::kTypeC> / 2; ++i) {
      const u32 column = 2 * (lane & 3u) + 8 * (i / 4) + (i & 1), row = (lane >> 2) + ((i & 2) != 0 ? 8 : 0);
      store_shared(buffer + column * (kSlabRows * 4) + row * 4, d[first + i]);
    }
  } else {
    // Matrices of 8 x 8 by fours: rows 0 to 7 and 8 to 15 of two groups of columns.
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const int j = first + 8 * pair;
      const u32 column = 16 * pair + (lane & 7u) + (lane >> 4) * 8, half = lane >> 3 & 1u;
      store_matrix_turned_x4(
          buffer + column * (kSlabRows * 2) + half * 16, pack_pair<Config::kTypeC>(d[j + 0], d[j + 1]),
          pack_pair<Config::kTypeC>(d[j + 2], d[j + 3]), pack_pair<Config::kTypeC>(d[j + 4], d[j + 5]),
          pack_pair<Config::kTypeC>(d[j + 6], d[j + 7]));
    }
  }
}

// Finishes and stores accumulators of a warp.
struct SymmetricStore {
  const TensorMap& upper;
  const TensorMap& lower;
  OutputView output;   // of this matrix
  EpilogueView extra;  // its residual
  float alpha, beta, shift;
  u32 slabs, lane;
  i32 matrix;

  // alpha sums + beta R.
  template <int kCount>
  __device__ __forceinline__ void scale(float (&d)[kCount], int first, u32 x, u32 y) const {
    using C = Config;
    constexpr int kHalf = kSlabColumns<C::kTypeC> / 4;  // what is read of the residual at once fits the registers
#pragma unroll
    for (int begin = first; begin < first + 2 * kHalf; begin += kHalf) {
      ResidualPairs<C, kHalf, true> residual;
      if constexpr (C::kResidual) residual.load(output, extra, begin, x, y, lane);
#pragma unroll
      for (int i = 0; i < kHalf; i += 2) {
        d[begin + i] *= alpha;
        d[begin + i + 1] *= alpha;
        if constexpr (C::kResidual) {
          d[begin + i] = fmaf(beta, residual.pairs[i / 2].left(), d[begin + i]);
          d[begin + i + 1] = fmaf(beta, residual.pairs[i / 2].right(), d[begin + i + 1]);
        }
      }
    }
  }

  // What a slab has on and above the diagonal, to both places.
  template <int kCount>
  __device__ __forceinline__ void store_crossed(const float (&d)[kCount], int first, u32 x, u32 y) const {
#pragma unroll
    for (int i = 0; i < kSlabColumns<Config::kTypeC> / 2; ++i) {
      const u32 row = y + (lane >> 2) + ((i & 2) != 0 ? 8 : 0);
      const u32 column = x + 2 * (lane & 3u) + 8 * ((first + i) / 4) + (i & 1);
      if (column < row) continue;
      const float value = column == row ? d[first + i] + shift : d[first + i];
      store_element<Config::kTypeC, StoreMode::kOverwrite>(output, row, column, value);
      if (column != row) store_element<Config::kTypeC, StoreMode::kOverwrite>(output, column, row, value);
    }
  }

  // `d` are 16 rows of C from row y on, as wide as the tile, from column x on.
  template <int kCount>
  __device__ __forceinline__ void operator()(float (&d)[kCount], i32 x, i32 y) const {
    using C = Config;
    constexpr int kColumns = kSlabColumns<C::kTypeC>, kPerSlab = kColumns / 2;
    static_assert(kCount % kPerSlab == 0, "a tile is whole slabs");
#pragma unroll  // fully: `d` is in registers, so its indices must be constants
    for (int slab = 0; slab < kCount / kPerSlab; ++slab) {
      const int first = slab * kPerSlab;
      const i32 left = x + slab * kColumns;
      // Slabs below the diagonal are another tile's other half; those outside of the matrix are left out, too.
      if (left + kColumns <= y || left >= static_cast<i32>(output.cols) || y >= static_cast<i32>(output.rows)) continue;
      scale(d, first, static_cast<u32>(x), static_cast<u32>(y));
      if (left < y + static_cast<i32>(kSlabRows)) {
        store_crossed(d, first, static_cast<u32>(x), static_cast<u32>(y));
      } else {
        store_twice(d, first, left, y);
      }
    }
  }

  // A slab above the diagonal, through the copy engine. Slabs that are left out issue nothing, so both buffers are
  // known to be free only when all stores but the latest have been read out.
  template <int kCount>
  __device__ __forceinline__ void store_twice(const float (&d)[kCount], int first, i32 left, i32 y) const {
    using C = Config;
    const u32 turned = slabs + (C::kSlabBuffers - 1) * kSlabBytes;
    if (lane == 0) wait_stores_read<C::kSlabBuffers - 1>();
    __syncwarp();
    if constexpr (C::kTypeC == OutputType::kF32) {
      write_slab_32bit(d, first, slabs, lane);
    } else {
      write_slab_16bit<C::kTypeC>(d, first, slabs, lane);
    }
    send(upper, slabs, BoxCorner{left, y, matrix, 0});
    if (lane == 0) wait_stores_read<C::kSlabBuffers - 1>();
    __syncwarp();
    write_turned_slab(d, first, turned, lane);
    send(lower, turned, BoxCorner{y, left, matrix, 0});
  }

  __device__ __forceinline__ void send(const TensorMap& map, u32 buffer, const BoxCorner& at) const {
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) {
      store_box(map, buffer, at);
      commit_stores();
    }
  }
};

__device__ __forceinline__ SymmetricStore store_of(const TensorMap& upper, const TensorMap& lower, OutputView output,
                                                   const SymmetricTerms& terms, u32 slabs, u32 lane, u32 matrix) {
  constexpr i64 kBytes = Config::kTypeC == OutputType::kF32 ? 4 : 2;
  output.data = static_cast<u8*>(output.data) + matrix * terms.c_matrix * kBytes;
  EpilogueView extra{nullptr, terms.residual, terms.residual_stride};
  if constexpr (Config::kResidual) {
    extra.residual = static_cast<const u8*>(terms.residual) + matrix * terms.residual_matrix * kBytes;
  }
  return {upper, lower, output, extra, terms.alpha, terms.beta, terms.shift, slabs, lane, static_cast<i32>(matrix)};
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1)
    ridge_symmetric_product(const __grid_constant__ ridge::cuda::TensorMap map_rows,
                            const __grid_constant__ ridge::cuda::TensorMap map_columns,
                            const __grid_constant__ ridge::cuda::TensorMap map_upper,
                            const __grid_constant__ ridge::cuda::TensorMap map_lower,
                            const ridge::cuda::OutputView output, const ridge::cuda::TriangleGrid tiles,
                            const ridge::cuda::u32 k_blocks, const ridge::cuda::SymmetricTerms terms) {
  using namespace ridge::cuda;
  using C = Config;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const Ring<C::kStages> ring{base + SharedLayout::kBarriers};

  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;
  const BlockPlace place = place_in_cluster<C>();
  const TriangleWalk walk{tiles, blockIdx.x / C::kClusterBlocks, gridDim.x / C::kClusterBlocks};

  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(map_rows);
    prefetch_tensor_map(map_columns);
    prefetch_tensor_map(map_upper);
    prefetch_tensor_map(map_lower);
    ring.init(C::kWarpsPerTile * (C::kClusterM + C::kClusterN - 1));
  }
  // Barriers must exist in every block of the cluster before the first multicast or remote arrival can reach them.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  // By every thread: the producer reads A, the consumers the residual, and they write C.
  wait_for_prior_grid();

  if (warpgroup == C::kConsumers) {
    // ---- Producer: one thread feeds the ring
    decrease_registers<40>();
    if (warp == C::kConsumers * 4 && elect_one()) {
      RingPosition<C::kStages> position;
      for (TriangleWalk to_load = walk; to_load.more(); to_load.next()) {
        const TriangleTile at = to_load.at();
        const i32 matrix = static_cast<i32>(to_load.matrix());
        const i32 m = static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM);
        const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
        for (u32 block = 0; block < k_blocks; ++block) {
          const u32 full = ring.full(position.stage);
          barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
          barrier_arrive_expect_bytes(full, C::kStageBytes);
          const i32 k = static_cast<i32>(block * C::kBlockK);
          load_side<C::kBlockM, C::kClusterN, C::kSplitColumnsA>(
              base + SharedLayout::kA + position.stage * C::kStageBytesA, map_rows, full, k, m, matrix, place.in_n,
              place.share_a_mask);
          load_side<C::kBlockN, C::kClusterM, C::kSplitColumnsB>(
              base + SharedLayout::kB + position.stage * C::kStageBytesB, map_columns, full, k, n, matrix, place.in_m,
              place.share_b_mask);
          position.advance();
        }
      }
      let_next_grid_start();
    }
    __syncwarp();
  } else {
    // ---- Consumers: multiply out of the ring, then store
    increase_registers<232>();
    const u32 row_in_tile = C::kPingpong ? 0 : warpgroup * C::kRowsPerWarpgroup;
    const u32 slabs = base + SharedLayout::kSlabs + warp * C::kSlabBuffers * kSlabBytes;
    // 64 rows of A are 8 KiB in either order: 64 swizzle rows (K-major), or one column of 64 K rows (MN-major).
    const u64 first_a =
        matrix_descriptor<C::kMajorA>(base + SharedLayout::kA + row_in_tile * kRowBytes, C::kBlockK * kRowBytes);
    const u64 first_b = matrix_descriptor<C::kMajorB>(base + SharedLayout::kB, C::kBlockK * kRowBytes);

    // Lane i tells block i of the cluster that this warp no longer needs a stage it feeds.
    const bool tells_peer = C::kMulticast && lane < C::kClusterBlocks &&
                            (lane % C::kClusterM == place.in_m || lane / C::kClusterM == place.in_n);
    auto release = [&](u32 stage) {
      if constexpr (!C::kMulticast) {
        if (lane == 0) barrier_arrive(ring.empty(stage));
      } else {
        if (tells_peer) barrier_arrive_in_block(ring.empty(stage), lane);
      }
    };

    RingPosition<C::kStages> position;
    if (C::kPingpong && warpgroup == 1) {
      position.advance_by(k_blocks);
      named_barrier_arrive(kTurnBarrier, kTurnThreads);  // the first turn is warpgroup 0's
    }
    for (TriangleWalk mine = C::kPingpong ? walk.alternating(warpgroup) : walk; mine.more(); mine.next()) {
      float sums[C::kSubtiles][C::kBlockN / 2];
      // The warpgroups take turns at the K loop: matmul/cuda_wgmma.cu says why.
      if constexpr (C::kPingpong) named_barrier(kTurnBarrier + warpgroup, kTurnThreads);
      const u32 in_use = multiply<C>(sums, ring, position, first_a, first_b, k_blocks, release);
      if constexpr (C::kPingpong) {
        named_barrier_arrive(kTurnBarrier + 1 - warpgroup, kTurnThreads);
        position.advance_by(k_blocks);
      }
      wgmma_wait<0>();
      release(in_use);

      const TriangleTile at = mine.at();
      const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
      const i32 m =
          static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM + row_in_tile + (warp % 4) * kSlabRows);
      const SymmetricStore store = store_of(map_upper, map_lower, output, terms, slabs, lane, mine.matrix());
#pragma unroll
      for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
        store(sums[subtile], n, m + static_cast<i32>(subtile * 64));
      }
    }
    if (lane == 0) wait_stores_done();
    __syncwarp();
  }
  // No block may leave while a peer can still multicast into its shared memory or arrive on its barriers.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  }
}
