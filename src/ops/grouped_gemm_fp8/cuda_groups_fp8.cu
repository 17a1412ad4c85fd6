// Products of groups in 8-bit floats on Hopper's tensor cores, from offsets that the device alone knows: the walk of
// grouped_gemm's kernel over the tiles of all groups (matmul/grouped_tiles.cuh) around the promoted sums of gemm_fp8's
// (multiply_promoted in main_loop.cuh). A producer thread fills a ring of shared-memory stages through the copy engine,
// scales of blocks beside the operands, and two warpgroups multiply out of it and move every 128 of the sum to fp32.
// Scales of rows and of groups are factors of whole sums: they multiply before the store (finish.cuh).
//
// Along rows a tile is rows of one group times columns of its matrix. Its last rows may be another group's: they are
// loaded and multiplied as well, and not stored. A group begins at any row, and copies of scales of blocks at multiples
// of four, so up to three scales in front of the tile's are copied, too. With `gather` rows of A are found by an index:
// the four warps beside the consumers copy them and their scales, 16 and 4 bytes at a time, and what is the copy
// engine's part is B (device/cuda/kernel/gathered_rows.cuh). Along sums groups begin at multiples of 128,
// so no step of K is of two groups. Groups with more rows are walked first there, so that the last tiles are short
// ones.
//
// Sums are added to an fp32 C in L2 (UTMAREDG). To a 16-bit C, whose sums are rounded once, they are added on their way
// out: its old content comes through the buffers that the sums leave through (added_slabs.cuh).
//
// Wins from a hundred rows a group up, and with any skew. Groups of fewer rows than a tile waste what is left of it.
// Refuses operands and scales of blocks whose rows do not start on 16 bytes, but for scales of rows by index.

// clang-format off
/* ridge-kernel
op = "grouped_gemm_fp8"
# At entry 65536 registers are shared by 384 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
sass = [{ opcode = "QGMMA" }, { opcode = "UTMALDG" }, { opcode = "UTMASTG", when = "accumulate == 0 || out != 2" }, { opcode = "UTMAREDG", when = "accumulate && out == 2" }, { opcode = "LDGSTS", when = "gather" }]
[define]
RIDGE_TYPE_A = { value = "dtype % 2", names = ["kE4m3", "kE5m2"] }
RIDGE_TYPE_B = { value = "dtype == 1 || dtype == 2", names = ["kE4m3", "kE5m2"] }
RIDGE_TYPE_C = { value = "out", names = ["kBf16", "kF16", "kF32"] }
RIDGE_SCALING = { value = "scaling == 0 ? along : scaling + 1", names = ["kBlock", "kVector", "kRow", "kTensor"] }
RIDGE_STORE = { value = "accumulate && out == 2", names = ["kOverwrite", "kAdd"] }
RIDGE_ADDS_OLD = { value = "accumulate && out != 2" }
RIDGE_ALONG_SUMS = { value = "along" }
RIDGE_WIDE_OFFSETS = { value = "offsets" }
RIDGE_GATHER = { value = "gather" }
[configs]
promote_128x192_halves = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_INSTRUCTION_N = 96, RIDGE_PARTS = 2 }
promote_128x256 = { RIDGE_BLOCK_N = 256, RIDGE_INSTRUCTION_N = 128 }
promote_256x128 = { RIDGE_BLOCK_M = 256, RIDGE_INSTRUCTION_N = 128 }
promote_128x160 = { RIDGE_BLOCK_N = 160, RIDGE_STAGES = 5, RIDGE_INSTRUCTION_N = 160 }
promote_128x128 = { RIDGE_STAGES = 6, RIDGE_INSTRUCTION_N = 128 }
[variants]
rows_bf16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=14336 k=4096", every = true }
sums_bf16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums", every = true }
sums_f32add = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums out=f32 accumulate=1", every = true }
sums_bf16_add = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums accumulate=1", every = true }
sums_row_bf16_add = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums scaling=row accumulate=1", every = true }
rows_e5m2_f16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=14336 k=4096 dtype=e5m2_e4m3fn out=f16 offsets=i64" }
rows_f32 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=14336 k=4096 out=f32" }
sums_e5m2_f32 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums dtype=e4m3fn_e5m2 out=f32" }
rows_bf16_gather = { case = "grouped_gemm_fp8 rows=16384 groups=8 n=14336 k=4096 gather=1 sources=8192", every = true }
rows_e5m2_gather = { case = "grouped_gemm_fp8 rows=16384 groups=8 n=14336 k=4096 dtype=e5m2_e4m3fn gather=1 sources=8192" }
rows_row_bf16_gather = { case = "grouped_gemm_fp8 rows=16384 groups=8 n=14336 k=4096 scaling=row gather=1 sources=8192" }
rows_row_bf16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=14336 k=4096 scaling=row", every = true }
sums_row_f32add = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums scaling=row out=f32 accumulate=1", every = true }
rows_tensor_bf16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=14336 k=4096 scaling=tensor", every = true }
rows_row_f32 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=14336 k=4096 scaling=row dtype=e5m2_e4m3fn out=f32 offsets=i64" }
sums_row_f16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums scaling=row dtype=e4m3fn_e5m2 out=f16" }
sums_tensor_bf16 = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums scaling=tensor" }
sums_tensor_f32add = { case = "grouped_gemm_fp8 rows=8192 groups=8 n=4096 m=14336 along=sums scaling=tensor out=f32 accumulate=1" }
*/
/* ridge-launch
[[value]]
name = "rows_c"
expression = "along ? m : rows"
[[value]]
name = "row_b"
expression = "along ? b_stride0 : b_stride1"
[[value]]
name = "row_c"
expression = "along ? c_stride1 : c_stride0"
[[value]]
name = "tile_rows"
expression = "ceil_div(rows_c, RIDGE_BLOCK_M)"
[[value]]
name = "tile_cols"
expression = "ceil_div(n, RIDGE_BLOCK_N)"
# At most: every group may end within a tile.
[[value]]
name = "most_tiles"
expression = "(along ? groups * tile_rows : tile_rows + min(groups, rows)) * tile_cols"
# Scales of blocks lie in the stages, those of columns of B once for each of two warpgroups.
[[value]]
name = "scale_bytes_of_stage"
expression = "scaling == 0 ? (RIDGE_BLOCK_M + (along ? RIDGE_BLOCK_N : 4)) * 4 : 0"
[[value]]
name = "shared_bytes"
expression = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + 16 + scale_bytes_of_stage) + (scaling == 1 ? RIDGE_BLOCK_N * 8 : 0) + RIDGE_SLAB_BUFFERS * (16384 + (accumulate && out != 2 ? 64 : 0)) + (groups + 1) * 8"

[[needs]]
expression = "rows > 0 && n > 0 && (along ? m : k) > 0"
reason = "an empty product needs no matrix unit"
[[needs]]
expression = "a_align % 16 == 0 && b_align % 16 == 0"
reason = "the copy engine reads rows of A and B that start on 16 bytes; pad them"
[[needs]]
expression = "c_align % 16 == 0 && n * c_bytes % 16 == 0"
reason = "the copy engine writes rows of C that start and end on 16 bytes; pad them"
[[needs]]
expression = "scaling != 0 || ((gather || scale_a_align % 16 == 0) && (along == 0 || scale_b_align % 16 == 0))"
reason = "rows of the scales along a step of the sum are copied from multiples of 16 bytes; pad them"
[[needs]]
expression = "gather == 0 || sources > 0"
reason = "there is no row to gather"
[[needs]]
expression = "gather == 0 || RIDGE_BLOCK_M == 128"
reason = "a thread that copies rows of a tile holds the places of eight"
[[needs]]
expression = "scaling != 0 || ((gather || rows_c % 4 == 0) && (along == 0 || n % 4 == 0))"
reason = "scales of blocks are copied by fours: rows, or along sums m and n, must be multiples of 4; pad them"
[[needs]]
expression = "groups <= 2048"
reason = "the offsets of a call lie in shared memory beside the stages"
[[needs]]
expression = "max(rows, n, m, k) <= 2147483135"
reason = "sides are counted in 32 bits"
[[needs]]
expression = "shared_bytes <= 232448"
reason = "a block has 227 KiB of shared memory"
[[needs]]
expression = "accumulate == 0 || out != 2 || RIDGE_BLOCK_N % 32 == 0"
reason = "the last slab of a row may overlap the one before it, but not when it is added"

[[needs]]
expression = "accumulate == 0 || out == 2 || RIDGE_SLAB_BUFFERS <= RIDGE_BLOCK_M / 128 * ceil_div(RIDGE_BLOCK_N, 64)"
reason = "a buffer through which something comes is one of a slab of the tile"

[[tensor_map]]
name = "map_a"
operand = "a"
sizes = ["along ? rows : k", "gather ? sources : rows_c"]
strides = ["a_stride0"]
box = [128, "RIDGE_BLOCK_M"]
l2_promotion = "a_stride0 % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_b"
operand = "b"
sizes = ["along ? rows : k", "n", "along ? 1 : groups", 1]
strides = ["row_b", "along ? 16 : b_stride0", 16]
box = [128, "RIDGE_BLOCK_N", 1, 1]
l2_promotion = "row_b % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_c"
operand = "c"
sizes = ["n", "rows_c", "along ? groups : 1", 1]
strides = ["row_c * c_bytes", "along ? c_stride0 * c_bytes : 16", 16]
box = ["128 / c_bytes", 16, 1, 1]
l2_promotion = "row_c * c_bytes % 128 == 0 ? 256 : 128"

[[kernel]]
symbol = "ridge_grouped_gemm_fp8"
grid = ["min(most_tiles, sm_count)"]
block = [384]
shared = "shared_bytes"
args = [
  { tensor_map = "map_a" }, { tensor_map = "map_b" }, { tensor_map = "map_c" },
  { struct = [{ operand = "offsets" }, { u32 = "groups" }, { u32 = "rows" }] },
  { struct = [{ operand = "c" }, { i64 = "row_c" }, { u32 = "rows_c" }, { u32 = "n" }] },
  { struct = [{ operand = "scale_a" }, { operand = "scale_b" }, { i64 = "scale_a_stride0" }, { i64 = "scale_b_row" }] },
  { struct = [{ i64 = "along ? 0 : scale_b_stride0" }, { i64 = "along ? c_stride0 : 0" }] },
  { struct = [{ u32 = "tile_rows" }, { u32 = "tile_cols" }, { u32 = "min(RIDGE_GROUP, tile_rows)" }, { u32 = "0" }] },
  { u32 = "ceil_div(k, 128)" },
  { struct = [{ operand = "index", when = "gather" }, { operand = "a" }, { operand = "b" }, { i64 = "a_stride0" }, { u32 = "sources" }, { u32 = "k" }] },
]
*/
/* ridge-tunables
[[tunable]]
name = "RIDGE_BLOCK_M"
values = [128, 256]
default = 128
title = "rows of C of one tile"
effect = "an element of B brought into shared memory is used so often"
model = "tile m"
group = "tile"
[[tunable]]
name = "RIDGE_BLOCK_N"
values = [64, 96, 128, 160, 192, 256]
default = 128
title = "columns of C of one tile"
effect = "an element of A brought into shared memory is used so often"
model = "tile n"
group = "tile"
[[tunable]]
name = "RIDGE_STAGES"
values = [3, 4, 5, 6, 8]
default = 4
title = "slices of k on their way through shared memory"
effect = "loads are asked for so many steps ahead of the matrix unit"
category = "pipeline"
model = "stages k"
group = "tile"
[[tunable]]
name = "RIDGE_INSTRUCTION_N"
values = [64, 96, 128, 160]
default = 128
category = "resource"
title = "columns of one instruction whose sums are promoted"
effect = "so many sums are promoted at a time, while the other warpgroup multiplies"
group = "tile"
[[tunable]]
name = "RIDGE_PARTS"
values = [1, 2]
default = 1
category = "resource"
title = "sets of sums in the matrix unit"
effect = "one is promoted while the next is multiplied"
model = "overlap"
group = "tile"
[[tunable]]
name = "RIDGE_GROUP"
values = [1, 2, 4, 8, 16, 32]
default = 8
category = "layout"
title = "tiles side by side along M in the order in which the tiles of a group are walked"
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
expression = "RIDGE_BLOCK_N % RIDGE_INSTRUCTION_N == 0 && RIDGE_BLOCK_M / 128 * (RIDGE_BLOCK_N / RIDGE_INSTRUCTION_N) % RIDGE_PARTS == 0"
reason = "a stage of promoted sums is whole instructions, issued RIDGE_PARTS at a time by both warpgroups"
[[constraint]]
expression = "RIDGE_BLOCK_M / 128 * RIDGE_BLOCK_N + RIDGE_PARTS * RIDGE_INSTRUCTION_N <= 384"
reason = "a thread has registers for 192 sums"
*/
// clang-format on

#include "../../device/cuda/kernel/added_slabs.cuh"
#include "../../device/cuda/kernel/finish.cuh"
#include "../../device/cuda/kernel/gathered_rows.cuh"
#include "../../device/cuda/kernel/main_loop.cuh"
#include "../../device/cuda/kernel/shared_stage.cuh"
#include "../matmul/grouped_tiles.cuh"

namespace ridge::cuda {

// As the launch plan fills it: elements from one matrix of a stack to the next; of scales those of blocks along rows.
struct StackStrides {
  i64 scale_b, c;
};

namespace {

struct Config : GemmBuild {
  static constexpr bool kAlongSums = RIDGE_ALONG_SUMS != 0, kWideOffsets = RIDGE_WIDE_OFFSETS != 0;
  static constexpr u32 kBlockM = RIDGE_BLOCK_M, kBlockN = RIDGE_BLOCK_N, kStages = RIDGE_STAGES;
  static constexpr u32 kInstructionN = RIDGE_INSTRUCTION_N, kParts = RIDGE_PARTS;
  static constexpr u32 kClusterM = 1, kClusterBlocks = kClusterM;
  static constexpr u32 kSlabBuffers = RIDGE_SLAB_BUFFERS;
  static constexpr bool kAddsOld = RIDGE_ADDS_OLD != 0, kPrefetches = kAddsOld;
  static constexpr bool kGather = RIDGE_GATHER != 0;  // rows of A are found by index
  static constexpr u32 kConsumers = 2;                // warpgroups that multiply
  static constexpr u32 kThreads = (kConsumers + 1) * kWarpgroupThreads;

  // One stage is one swizzle row of K, 128 elements, which share a scale of blocks. No group ends within it along sums.
  static constexpr u32 kBlockK = kRowBytes;
  static constexpr u32 kGroupAlign = kAlongSums ? kBlockK : 1;
  static constexpr u32 kStageBytesA = kBlockM * kRowBytes, kStageBytesB = kBlockN * kRowBytes;
  // What the copy engine brings of a stage, beside scales.
  static constexpr u32 kStageBytes = (kGather ? 0 : kStageBytesA) + kStageBytesB;
  // Scales of a stage: of the rows of A, along rows with up to three in front of them; along sums of the columns of B.
  static constexpr bool kStageScales = kScaling == Scaling::kBlock || kScaling == Scaling::kVector;
  static constexpr u32 kScalesA = kStageScales ? kBlockM + (kAlongSums ? 0 : 4) : 0;
  static constexpr u32 kScalesB = kStageScales && kAlongSums ? kBlockN : 0;
  static constexpr u32 kScaleBytes = (kScalesA + kScalesB) * 4;
  static constexpr u32 kRowsPerWarpgroup = kBlockM / kConsumers, kSubtiles = kRowsPerWarpgroup / 64;
  // Scales of columns are read while the last sums are promoted; of rows before the first are, which with several
  // groups of instructions is before the stage is let go of.
  static constexpr bool kReadsScalesLast = kStageScales && (kAlongSums || kSubtiles * kBlockN == kInstructionN);

  static_assert(kEightBit && kBlockK == 128, "8-bit operands, promoted every 128");
  static_assert(kScaling != (kAlongSums ? Scaling::kBlock : Scaling::kVector),
                "scales of blocks go with what is summed");
  static_assert(kMajorA == Major::kK && kMajorB == Major::kK, "8-bit operands have K contiguous");
  static_assert(kRowsPerWarpgroup % 64 == 0, "wgmma computes 64 rows at a time");
  static_assert(!kGather || (!kAlongSums && kBlockM == kGatherThreads), "a thread copies the scales of a row");
  static_assert(kScaleBytes % 16 == 0 && kScalesA % 2 == 0, "scales are copied by fours and read in pairs");
};

// Shared memory, from a 1024-byte aligned base: stages of A, stages of B, output slabs, scales of the stages, scales of
// columns for each warpgroup, barriers, the groups.
struct SharedLayout {
  static constexpr u32 kA = 0;
  static constexpr u32 kB = kA + Config::kStages * Config::kStageBytesA;
  static constexpr u32 kSlabs = kB + Config::kStages * Config::kStageBytesB;
  static constexpr u32 kScales = kSlabs + Config::kConsumers * 4 * Config::kSlabBuffers * kSlabBytes;
  static constexpr u32 kColumns = kScales + Config::kStages * Config::kScaleBytes;
  static constexpr u32 kBarriers = kColumns + Config::kConsumers * TileFinish<Config>::kBytes;
  static constexpr u32 kSlabBarriers = kBarriers + Ring<Config::kStages>::kBytes;
  static constexpr u32 kSlabBarrierBytes = Config::kAddsOld ? Config::kSlabBuffers * kBarrierBytes : 0;  // of a warp
  static constexpr u32 kGroups = kSlabBarriers + Config::kConsumers * 4 * kSlabBarrierBytes;
};

inline constexpr u32 kFinishBarrier = 1;  // and 2: named barriers of one warpgroup each

// Steps of K of a tile.
__device__ __forceinline__ u32 steps_of(const GroupTile& tile, u32 k_blocks) {
  return Config::kAlongSums ? tile.rows / Config::kBlockK : k_blocks;
}

// Bytes of `most` scales from `first` on that there are, of `count`: both are multiples of four.
__device__ __forceinline__ u32 scale_bytes(u32 count, u32 first, u32 most) {
  return count > first ? min(most, count - first) * 4 : 0;
}

// Scales of rows or of groups, where the tile's group has its first of A and of B. Strides are from group to group.
__device__ __forceinline__ ScaleView scales_of_group(const ScaleView& scales, const GroupTile& tile) {
  constexpr bool kOneVector = Config::kScaling == Scaling::kRow && !Config::kAlongSums;  // of all rows, along rows
  const i64 first_of_rows = Config::kGather ? 0 : static_cast<i64>(tile.begin);
  const i64 first_a = kOneVector ? first_of_rows : tile.group * scales.stride_a;
  return {scales.fp32_a() + first_a, scales.fp32_b() + tile.group * scales.stride_b, 0, 0};
}

// The scales of the thread's rows of a tile, as TileFinish::read does, of rows by index; `row`: of the first
// accumulator, of `rows` of the group.
__device__ __forceinline__ void read_scales_by_index(TileFinish<Config>& finish, const GatherView& view,
                                                     const float* scales, const GroupTile& tile, u32 row, u32 rows) {
#pragma unroll
  for (u32 i = 0; i < 2 * Config::kSubtiles; ++i) {
    const u32 at = row + i / 2 * 64 + i % 2 * 8;
    const u32 source = at < rows ? static_cast<u32>(__ldg(view.index + tile.begin + at)) : kNoRow;
    finish.rows[i / 2][i % 2] = source < view.sources ? __ldg(scales + source) : 0.0f;
  }
}

// Four warps that copy rows of A and, of blocks, their scales; one thread of them has the copy engine bring B.
__device__ __forceinline__ void feed_by_index(const Ring<Config::kStages>& ring, u32 base, GroupWalk<Config>& walk,
                                              const TensorMap& map_b, const GatherView& view, const ScaleView& scales,
                                              u32 k_blocks) {
  using C = Config;
  const u32 thread = threadIdx.x - C::kConsumers * kWarpgroupThreads;
  const bool first_warp = warp_uniform(thread / kWarpThreads) == 0;
  GatheredRows<C::kBlockM / kGatherRows, 1> rows{view, static_cast<const u8*>(view.a), thread};
  CopiedStages<C::kStages> copied{ring, thread % kWarpThreads};
  RingPosition<C::kStages> position;
  for (; walk.more(); walk.next()) {
    const GroupTile tile = walk.at();
    const u32 first = tile.begin + tile.at.row * C::kBlockM, end = tile.begin + tile.rows;
    rows.read(first, end);
    u32 source = kNoRow;  // of the row whose scales the thread copies
    if (C::kStageScales && first + thread < end) source = static_cast<u32>(__ldg(view.index + first + thread));
    rows.locate(0);
    const bool has_scales = source < view.sources;
    const float* scale = scales.fp32_a() + (has_scales ? source : 0);
    for (u32 step = 0; step < k_blocks; ++step) {
      const u32 stage = position.stage, full = ring.full(stage);
      barrier_wait(ring.empty(stage), position.parity ^ 1u);
      if (first_warp && elect_one()) {
        barrier_arrive_expect_bytes(full, C::kStageBytes);
        load_box(base + SharedLayout::kB + stage * C::kStageBytesB, map_b, full,
                 BoxCorner{static_cast<i32>(step * C::kBlockK), static_cast<i32>(tile.at.col * C::kBlockN),
                           static_cast<i32>(tile.group), 0});
      }
      __syncwarp();
      rows.copy(base + SharedLayout::kA + stage * C::kStageBytesA, step * kRowBytes,
                rows.bytes_from(step * C::kBlockK));
      if constexpr (C::kStageScales) {
        copy_word(base + SharedLayout::kScales + stage * C::kScaleBytes + thread * 4, scale, has_scales);
        scale += scales.stride_a;
      }
      copied.next();
      position.advance();
    }
  }
  copied.finish();
}

// Sums of 64 rows times their scales, as TileFinish::apply does, but a pair of columns is read once for both rows.
template <int kCount>
__device__ __forceinline__ void scale_sums(float (&sums)[kCount], const TileFinish<Config>& finish, u32 subtile,
                                           u32 lane) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    float x = 1.0f, y = 1.0f;
    if constexpr (TileFinish<Config>::kRowScale) {
      load_shared_v2(finish.shared + (2 * (lane % 4) + 8 * (i / 4)) * 4, x, y);
    }
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      sums[i + half] = sums[i + half] * finish.rows[subtile][half / 2] * x;
      sums[i + half + 1] = sums[i + half + 1] * finish.rows[subtile][half / 2] * y;
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1)
    ridge_grouped_gemm_fp8(const __grid_constant__ ridge::cuda::TensorMap map_a,
                           const __grid_constant__ ridge::cuda::TensorMap map_b,
                           const __grid_constant__ ridge::cuda::TensorMap map_c, const ridge::cuda::GroupView groups,
                           const ridge::cuda::OutputView output, const ridge::cuda::ScaleView scales,
                           const ridge::cuda::StackStrides stacks, const ridge::cuda::TileGrid tiles,
                           const ridge::cuda::u32 k_blocks, const ridge::cuda::GatherView gather) {
  using namespace ridge::cuda;
  using C = Config;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const Ring<C::kStages> ring{base + SharedLayout::kBarriers};
  u32* const order = reinterpret_cast<u32*>(shared + SharedLayout::kGroups);
  // As in grouped_gemm's kernel, so that no load of one table reaches into the other.
  const GroupTable table{order + groups.count + 1, order};

  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;

  if (warp == 0 && elect_one()) {
    if constexpr (!C::kGather) prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    prefetch_tensor_map(map_c);
    if constexpr (C::kAddsOld) {
      for (u32 i = 0; i < C::kConsumers * 4; ++i) {
        AddedSlabs<C, StackPlaces>::init(base + SharedLayout::kSlabBarriers + i * SharedLayout::kSlabBarrierBytes);
      }
    }
    ring.init(4 * C::kConsumers, C::kGather ? 1 + kGatherWarps : 1);
  }
  wait_for_prior_grid();
  read_groups<C>(groups, table, tiles.cols);
  GroupWalk<C> walk = group_walk<C>(table, tiles, groups);

  if (warpgroup == C::kConsumers) {
    // ---- Beside the consumers: a thread that feeds the ring, and three warps for what of C has no product; or all
    // four warps for rows that are found by index
    decrease_registers<56>();
    const u32 role = warp - C::kConsumers * 4;
    if constexpr (C::kGather) {
      feed_by_index(ring, base, walk, map_b, gather, scales, k_blocks);
      if (role == 0 && elect_one()) let_next_grid_start();
      clear_rest<C>(groups, table, output, stacks.c, threadIdx.x % kGatherThreads, kGatherThreads);
    } else if (role == 0) {
      if (elect_one()) {
        RingPosition<C::kStages> position;
        for (; walk.more(); walk.next()) {
          const GroupTile tile = walk.at();
          const u32 m = tile.at.row * C::kBlockM, n = tile.at.col * C::kBlockN;
          const i32 row_of_a = static_cast<i32>(C::kAlongSums ? m : tile.begin + m);
          const i32 matrix_of_b = C::kAlongSums ? 0 : static_cast<i32>(tile.group);
          // Along rows from the multiple of four at or in front of the tile's first row.
          const u32 first_a = C::kAlongSums ? m : (tile.begin + m) / 4 * 4;
          const u32 bytes_a = scale_bytes(C::kAlongSums ? output.rows : groups.rows, first_a, C::kScalesA);
          const u32 bytes_b = scale_bytes(output.cols, n, C::kScalesB);
          const u32 first_k = C::kAlongSums ? tile.begin : 0;
          const u32 steps = steps_of(tile, k_blocks);
          for (u32 step = 0; step < steps; ++step) {
            const u32 full = ring.full(position.stage);
            barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
            barrier_arrive_expect_bytes(full, C::kStageBytes + bytes_a + bytes_b);
            const u32 stage_scales = base + SharedLayout::kScales + position.stage * C::kScaleBytes;
            const i64 block = first_k / C::kBlockK + step;
            if constexpr (C::kStageScales) {
              load_bytes(stage_scales, scales.fp32_a() + block * scales.stride_a + first_a, bytes_a, full);
            }
            if constexpr (C::kStageScales && C::kAlongSums) {
              load_bytes(stage_scales + C::kScalesA * 4, scales.fp32_b() + block * scales.stride_b + n, bytes_b, full);
            }
            const i32 k = static_cast<i32>(first_k + step * C::kBlockK);
            load_box(base + SharedLayout::kA + position.stage * C::kStageBytesA, map_a, full, k, row_of_a);
            load_box(base + SharedLayout::kB + position.stage * C::kStageBytesB, map_b, full,
                     BoxCorner{k, static_cast<i32>(n), matrix_of_b, 0});
            position.advance();
          }
        }
        let_next_grid_start();
      }
    } else if constexpr (!C::kAddsOld) {
      clear_rest<C>(groups, table, output, stacks.c, threadIdx.x - (C::kConsumers * 4 + 1) * kWarpThreads,
                    3 * kWarpThreads);
    }
    __syncwarp();
  } else {
    // ---- Consumers: multiply out of the ring, then store
    increase_registers<224>();
    const u32 row_in_tile = warpgroup * C::kRowsPerWarpgroup;
    const u32 slabs = base + SharedLayout::kSlabs + warp * C::kSlabBuffers * kSlabBytes;
    const u64 first_a =
        matrix_descriptor<C::kMajorA>(base + SharedLayout::kA + row_in_tile * kRowBytes, C::kBlockK * kRowBytes);
    const u64 first_b = matrix_descriptor<C::kMajorB>(base + SharedLayout::kB, C::kBlockK * kRowBytes);
    auto release = [&](u32 stage) {
      // One lane lets go of scales that all lanes have read with ordinary loads. Where these come last, the machine
      // code without a fence arrives while they are on their way. Beside warps whose stores fill the load-store unit,
      // as those that clear C do, they were then late enough to find the scales of a later step.
      if constexpr (C::kReadsScalesLast) fence_proxy_async_shared();
      if constexpr (C::kStageScales) __syncwarp();
      if (lane == 0) barrier_arrive(ring.empty(stage));
    };

    TileFinish<C> finish{base + SharedLayout::kColumns + warpgroup * TileFinish<C>::kBytes};
    AddedSlabs<C, StackPlaces> added{map_c, map_c, slabs,
                                     base + SharedLayout::kSlabBarriers + warp * SharedLayout::kSlabBarrierBytes, lane};
    RingPosition<C::kStages> position;
    for (; walk.more(); walk.next()) {
      const GroupTile tile = walk.at();
      const u32 n = tile.at.col * C::kBlockN;
      const u32 m = tile.at.row * C::kBlockM + row_in_tile + (warp % 4) * kSlabRows;
      const i32 rows = static_cast<i32>(C::kAlongSums ? output.rows : tile.rows);
      if constexpr (C::kFinishes) {
        constexpr bool kByIndex = C::kGather && C::kScaling == Scaling::kRow;
        const OutputView of_group{nullptr, 0, kByIndex ? 0 : static_cast<u32>(rows), output.cols};
        finish.read(of_group, scales_of_group(scales, tile), {}, m + lane / 4, n);
        if constexpr (kByIndex) {
          read_scales_by_index(finish, gather, scales.fp32_a(), tile, m + lane / 4, static_cast<u32>(rows));
        }
      }
      // Rows and columns past the end have no scales and are never stored: what lies in shared memory there does not
      // matter.
      PromotionScales where{};
      const u32 before = C::kAlongSums || C::kGather ? 0 : tile.begin % 4;  // scales in front of the tile's first
      const u32 stage_scales = base + SharedLayout::kScales;
      where.rows = stage_scales + (before + row_in_tile + (warp % 4) * kSlabRows + lane / 4) * 4;
      where.columns = stage_scales + (C::kScalesA + 2 * (lane % 4)) * 4;
      if constexpr (!C::kAlongSums) {
        const u32 last = (output.cols - 1) / 128, first = min(n / 128, last);
        const float* const of_group = scales.fp32_b() + tile.group * stacks.scale_b;
        where.b0 = of_group + first * scales.stride_b;
        where.b1 = of_group + min(first + 1, last) * scales.stride_b;
        where.edge = 128 - n % 128;
      }
      // What is added is asked for a few steps before the end of K.
      added.places.matrix = static_cast<i32>(tile.group);
      const u32 steps = steps_of(tile, k_blocks);
      u32 steps_left = steps;
      auto release_stage = [&](u32 stage) {
        release(stage);
        if constexpr (C::kAddsOld) {
          if (steps_left == min(steps, kStepsAhead)) added.begin(static_cast<i32>(n), static_cast<i32>(m));
          --steps_left;
        }
      };
      float sums[C::kSubtiles][C::kBlockN / 2];
      multiply_promoted<C>(sums, ring, position, first_a, first_b, steps, where, release_stage);

      if constexpr (C::kFinishes) finish.share(kFinishBarrier + warpgroup);
#pragma unroll
      for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
        const i32 y = static_cast<i32>(m + subtile * 64);
        if constexpr (C::kFinishes) scale_sums(sums[subtile], finish, subtile, lane);
        if constexpr (C::kAddsOld) {
          added.store(sums[subtile], static_cast<int>(subtile), static_cast<i32>(n), static_cast<i32>(m), [](int) {});
          continue;
        }
        if (y >= rows) continue;
        const Place to{static_cast<i32>(n), C::kAlongSums ? y : static_cast<i32>(tile.begin) + y,
                       C::kAlongSums ? static_cast<i32>(tile.group) : 0, rows - y};
        store_group_rows<C>(sums[subtile], map_c, output, slabs, to, lane);
      }
    }
    if (lane == 0) wait_stores_done();
    __syncwarp();
  }
}
