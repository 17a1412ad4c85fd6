// Blocks stay and take row after row (device/cuda/kernel/row_loop.cuh): the copy engine brings the next rows while the
// present one is in registers, from its sum of squares to its result; the weight stays in registers for all of them.
// A part of a warp takes a row of up to 2 KiB, a block one of up to 32 KiB, a cluster of two to eight blocks a longer
// one, up to 256 KiB. Bound by memory: every operand once.
// Rows of up to 512 bytes go straight into registers (row_direct.cuh), by many blocks with some of them each: 8 to 11 %
// faster there on an H200.
// Rows that do not start on 16 bytes, are no multiple of 16 bytes long, or longer, go by elements and are read twice.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "DIRECT"
values = [0, 1, 2]
default = 2
category = "algorithm"
title = "rows straight into registers, by blocks that come and go: never, always, by the length of rows"
[[tunable]]
name = "CHUNKS"
values = [1, 2, 4]
default = 4
category = "tile"
title = "chunks of 16 bytes of a thread, in rows that a block takes"
[[tunable]]
name = "SM_THREADS"
values = [256, 512, 1024, 1536, 2048]
default = 512
category = "launch"
title = "threads of a multiprocessor"
[[tunable]]
name = "RING_KIB"
values = [96, 128, 160, 192]
default = 192
category = "pipeline"
title = "shared memory of a multiprocessor for rows that are on their way, KiB"
[[constraint]]
expression = "DIRECT == 1 ? SM_THREADS >= 1024 && RING_KIB == 192 : SM_THREADS <= 1024"
reason = "a ring, or threads that hold rows"
*/
/* ridge-kernel
op = "rmsnorm"
max_registers = 128
sass = [{ opcode = "UBLKCP", when = "by_chunks && direct == 0" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "weight == 2 ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WEIGHT = { value = "weight != 0" }
RIDGE_ZERO_CENTRED = { value = "zero_centred" }
RIDGE_RESIDUAL = { value = "residual" }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_THREAD = { value = "per_thread" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "most_threads" }
RIDGE_DIRECT = { value = "direct" }
RIDGE_BLOCKS = { value = "max(1, floor_div(direct ? direct_threads : SM_THREADS, most_threads))" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
ring = { DIRECT = 0 }
direct = { DIRECT = 1, SM_THREADS = 1024 }
[variants]
bf16_128 = { case = "rmsnorm rows=8192 cols=128" }
bf16_1024 = { case = "rmsnorm rows=8192 cols=1024" }
bf16_4096 = { case = "rmsnorm rows=8192 cols=4096", every = true }
bf16_65536 = { case = "rmsnorm rows=1024 cols=65536" }
bf16_odd = { case = "rmsnorm rows=64 cols=4097" }
bf16_8192_f32_weight = { case = "rmsnorm rows=8192 cols=8192 weight=f32 zero_centred=1" }
bf16_8192_residual = { case = "rmsnorm rows=8192 cols=8192 residual=1" }
bf16_8192_residual_f32_weight = { case = "rmsnorm rows=8192 cols=8192 residual=1 weight=f32" }
f16_8192 = { case = "rmsnorm rows=8192 cols=8192 dtype=f16" }
f32_8192 = { case = "rmsnorm rows=8192 cols=8192 dtype=f32" }
f32_1024_residual = { case = "rmsnorm rows=8192 cols=1000 dtype=f32 residual=1" }
bf16_8192_plain = { case = "rmsnorm rows=8192 cols=8192 weight=none" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "floor_div(cols * x_bytes, 16)"
# Longer rows than eight blocks keep go by elements.
[[value]]
name = "by_chunks"
expression = "vectors && chunks <= 4096 * CHUNKS"
[[value]]
name = "direct"
expression = "by_chunks && chunks <= 1024 * CHUNKS && (DIRECT == 1 || (DIRECT == 2 && chunks <= 32))"
[[value]]
name = "per_thread"
expression = "by_chunks == 0 || chunks <= (direct ? 8 : 32) ? 1 : chunks <= 64 ? 2 : chunks <= 128 ? 4 : CHUNKS"
[[value]]
name = "wanted_lanes"
expression = "ceil_div(chunks, per_thread)"
[[value]]
name = "lanes"
expression = "by_chunks == 0 || chunks > 128 ? 0 : wanted_lanes > 16 ? 32 : wanted_lanes > 8 ? 16 : wanted_lanes > 4 ? 8 : wanted_lanes > 2 ? 4 : wanted_lanes > 1 ? 2 : 1"
[[value]]
name = "blocks"
expression = "by_chunks == 0 || direct || chunks <= 512 * CHUNKS ? 1 : chunks <= 1024 * CHUNKS ? 2 : chunks <= 2048 * CHUNKS ? 4 : 8"
[[value]]
name = "slice"
expression = "ceil_div(chunks, blocks)"
[[value]]
name = "threads"
expression = "by_chunks == 0 || lanes > 0 ? 256 : max(64, round_up(ceil_div(slice, CHUNKS), 32))"
[[value]]
name = "most_threads"
expression = "threads > 512 ? 1024 : 512"
# Direct: rows of a team at once, and of a block; chunks that a thread keeps through a sum, and how many
# threads have registers for them.
[[value]]
name = "side"
expression = "direct && lanes > 0 ? floor_div(4, per_thread) : 1"
[[value]]
name = "held"
expression = "per_thread * side * (1 + residual)"
[[value]]
name = "direct_threads"
expression = "held > 4 || side == 4 || lanes == 0 ? 1024 : side == 2 ? 1536 : 2048"
[[value]]
name = "turn_rows"
expression = "lanes > 0 ? side * floor_div(256, lanes) : 1"
# Blocks of a multiprocessor, and what a ring of one of them, or of one of its warps, may take.
[[value]]
name = "resident"
expression = "max(1, min(8, floor_div(SM_THREADS, threads)))"
[[value]]
name = "ring"
expression = "floor_div(1024 * RING_KIB, resident * (lanes > 0 ? 8 : 1))"
[[value]]
name = "inputs"
expression = "1 + residual"
[[value]]
name = "pass_rows"
expression = "lanes > 0 ? floor_div(32, lanes) : 1"
# Short rows share a stage: four stages in a ring, and no more rows than keep every warp busy.
[[value]]
name = "stage_rows"
expression = "lanes == 0 ? 1 : pass_rows * max(1, min(floor_div(ring, 64 * inputs * chunks * pass_rows), ceil_div(rows, 2048 * pass_rows)))"
[[value]]
name = "stages"
expression = "max(2, min(8, floor_div(ring, 16 * max(1, slice) * stage_rows * inputs)))"
[[needs]]
expression = "DIRECT != 1 || direct"
reason = "direct: rows that start on 16 bytes, and that the threads of a block hold"
[[needs]]
expression = "direct == 0 || held <= 12"
reason = "direct: a thread has registers for 12 chunks"
[[needs]]
expression = "by_chunks == 0 || direct || resident * (3072 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1)) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[kernel]]
symbol = "ridge_rmsnorm"
grid = ["direct ? ceil_div(rows, turn_rows) : by_chunks == 0 ? min(rows, 8 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : blocks * min(rows, floor_div(resident * sm_count, blocks))"]
block = ["threads"]
cluster = ["blocks"]
shared = "by_chunks && direct == 0 ? 2048 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1) : 0"
args = [{ struct = [
  { operand = "x" }, { operand = "residual", when = "residual" }, { operand = "weight", when = "weight" }, { operand = "y" },
  { operand = "sum", when = "residual" }, { operand = "rstd", when = "rstd" },
  { i64 = "x_stride0 * x_bytes" }, { i64 = "residual_stride0 * x_bytes", when = "residual" }, { i64 = "y_stride0 * x_bytes" },
  { i64 = "sum_stride0 * x_bytes", when = "residual" },
  { i64 = "rows" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "stages" }, { u32 = "stage_rows" },
  { i64 = "cols" }, { f32 = "eps" }, { u32 = "12816" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/row_direct.cuh"
#include "../../device/cuda/kernel/row_loop.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes.
struct RmsnormParameters {
  const u8 *x, *residual, *weight;
  u8 *y, *sum;
  float* rstd;  // null: not wanted
  i64 x_pitch, residual_pitch, y_pitch, sum_pitch;
  RowGeometry geometry;
  i64 cols;
  float eps;
  u32 order;  // kInOrder
};

namespace {

constexpr Number kTypeX = Number::RIDGE_TYPE_X, kTypeW = Number::RIDGE_TYPE_W;
constexpr bool kWeight = RIDGE_WEIGHT != 0, kZeroCentred = RIDGE_ZERO_CENTRED != 0, kResidual = RIDGE_RESIDUAL != 0;
constexpr bool kByChunks = RIDGE_VECTORS != 0, kCluster = RIDGE_CLUSTER != 0;
constexpr u32 kLanes = RIDGE_LANES, kPerThread = RIDGE_PER_THREAD, kSide = RIDGE_SIDE, kInputs = kResidual ? 2 : 1;

using ChunkX = Chunk<kTypeX>;
constexpr u32 kCount = ChunkX::kCount;                         // elements of a chunk of x
constexpr u32 kWeightChunks = kCount / Chunk<kTypeW>::kCount;  // of the weight for one of x
constexpr u32 kWeightBytes = kCount * Chunk<kTypeW>::kBytes;   // and their bytes

// The factors of a thread's columns, as they are stored.
struct Factors {
  Chunk<kTypeW> words[kWeight ? kPerThread : 1][kWeight ? kWeightChunks : 1];

  // Of the k-th chunk.
  template <class Loop>
  __device__ __forceinline__ void load(const Loop& loop, const u8* weight, u32 k) {
    if constexpr (kWeight) {
      const u32 c = loop.chunk(k);
      const u8* const from = weight + static_cast<u64>(loop.first_chunk() + c) * kWeightBytes;
#pragma unroll
      for (u32 i = 0; i < kWeightChunks; ++i) {
        words[k][i].clear();
        if (c < loop.chunks()) words[k][i].load_global(from + i * 16);
      }
    }
  }
  template <class Loop>
  __device__ __forceinline__ void load(const Loop& loop, const u8* weight) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) load(loop, weight, k);
  }
  __device__ __forceinline__ void stay_packed(u32 order, u32 k) {
    if constexpr (kWeight) {
#pragma unroll
      for (u32 i = 0; i < kWeightChunks; ++i) words[k][i].stay_packed(order);
    }
  }
  __device__ __forceinline__ float at(u32 k, u32 i) const {
    if constexpr (!kWeight) return 1.0f;
    const float w = words[k][i / Chunk<kTypeW>::kCount][i % Chunk<kTypeW>::kCount];
    return kZeroCentred ? 1.0f + w : w;
  }
};

__device__ __forceinline__ float root_of(float squares, float inverse_cols, float eps) {
  return rsqrtf(squares * inverse_cols + eps);
}

// What is normalised of a chunk: x, or x + residual as it is stored.
template <class Loop>
__device__ __forceinline__ void read_input(const RmsnormParameters& p, const Loop& loop, u32 pass, u32 c, bool there,
                                           ChunkX& h) {
  h.clear();
  if (c >= loop.chunks()) return;
  h.load_shared(loop.address(0, pass, c));
  if constexpr (kResidual) {
    ChunkX more;
    more.load_shared(loop.address(1, pass, c));
    float sums[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) sums[i] = h[i] + more[i];
    h.set(sums);
    if (there) h.store_global(p.sum + loop.row(pass) * p.sum_pitch + static_cast<u64>(loop.first_chunk() + c) * 16);
  }
}

__device__ __forceinline__ void by_chunks(const RmsnormParameters& p, u8* memory) {
  RowShared& shared = *reinterpret_cast<RowShared*>(memory);
  prepare_rows<kCluster>(shared);
  RowInput inputs[kInputs];
  inputs[0] = {p.x, p.x_pitch};
  if constexpr (kResidual) inputs[1] = {p.residual, p.residual_pitch};
  RowLoop<kInputs, kLanes, kCluster> loop(p.geometry, inputs, shared);
  RowSum<1, kLanes, kCluster> sum(shared);
  Factors factors;
  factors.load(loop, p.weight);
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  for (; loop.more(); loop.advance()) {
    loop.wait();
    for (u32 pass = 0; pass < loop.passes(); ++pass) {
      const i64 row = loop.row(pass);
      const bool there = row < p.geometry.rows;
      ChunkX h[kPerThread];
      float squares[1] = {0.0f};
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) read_input(p, loop, pass, loop.chunk(k), there, h[k]);
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) squares[0] += h[k][i] * h[k][i];
      }
      sum(squares);
      if (pass + 1 == loop.passes()) loop.release(true);
      const float rstd = root_of(squares[0], inverse_cols, p.eps);
      if (!there) continue;
      if (p.rstd != nullptr && loop.first_chunk() == 0 && loop.chunk(0) == 0) p.rstd[row] = rstd;
      u8* const to = p.y + row * p.y_pitch + static_cast<u64>(loop.first_chunk()) * 16;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        float y[kCount];
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) y[i] = h[k][i] * rstd * factors.at(k, i);
        ChunkX out;
        out.set(y);
        if (loop.chunk(k) < loop.chunks()) out.store_global(to + static_cast<u64>(loop.chunk(k)) * 16);
      }
    }
  }
  leave_rows<kCluster>();
}

// The chunks of a thread's rows, of x and the residual.
struct Chunks {
  ChunkX words[kInputs][kSide][kPerThread];

  __device__ __forceinline__ void load(const RmsnormParameters& p, const RowTeam<kLanes, kSide>& team, i64 first) {
    const u8* const from[2] = {p.x, p.residual};
    const i64 pitch[2] = {p.x_pitch, p.residual_pitch};
#pragma unroll
    for (u32 i = 0; i < kInputs; ++i) {
#pragma unroll
      for (u32 s = 0; s < kSide; ++s) {
        const i64 row = team.row(first, s);
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) {
          words[i][s][k].clear();
          if (row >= p.geometry.rows || team.chunk(k) >= team.chunks()) continue;
          words[i][s][k].load_once(from[i] + row * pitch[i] + static_cast<u64>(team.chunk(k)) * 16);
        }
      }
    }
  }
};

// What is normalised of a chunk: x + residual as it is stored.
__device__ __forceinline__ void add_residual(const RmsnormParameters& p, const RowTeam<kLanes, kSide>& team, i64 first,
                                             u32 s, u32 k, Chunks& chunks) {
  ChunkX &h = chunks.words[0][s][k], &more = chunks.words[kInputs - 1][s][k];
  float sums[kCount];
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) sums[i] = h[i] + more[i];
  h.set(sums);
  const i64 row = team.row(first, s);
  if (row >= p.geometry.rows || team.chunk(k) >= team.chunks()) return;
  h.store_global(p.sum + row * p.sum_pitch + static_cast<u64>(team.chunk(k)) * 16);
}

// A block takes a row, or teams of its threads some rows, in registers from memory to the results.
__device__ __forceinline__ void direct(const RmsnormParameters& p) {
  using Team = RowTeam<kLanes, kSide>;
  using Sum = TeamSum<kLanes, kSide>;
  // Few enough to be loaded before the sum without crowding the rows out of registers.
  constexpr bool kWeightFirst = kSide * kPerThread * kInputs + kPerThread * kWeightChunks <= 4;
  __shared__ typename Sum::Shared shared;
  Sum sum(shared);
  const Team team(p.geometry.chunks);
  const i64 first = static_cast<i64>(blockIdx.x) * Team::block_rows();
  Chunks h;
  h.load(p, team, first);
  Factors factors;
  if constexpr (kWeightFirst) factors.load(team, p.weight);
  float squares[kSide] = {};
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if constexpr (kResidual) add_residual(p, team, first, s, k, h);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) squares[s] += h.words[0][s][k][i] * h.words[0][s][k][i];
    }
  }
  sum(squares);
  float rstd[kSide];
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    rstd[s] = root_of(squares[s], 1.0f / static_cast<float>(p.cols), p.eps);
    const i64 row = Team::row(first, s);
    if (p.rstd != nullptr && Team::chunk(0) == 0 && row < p.geometry.rows) p.rstd[row] = rstd[s];
  }
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    if constexpr (!kWeightFirst) factors.load(team, p.weight, k);
    factors.stay_packed(p.order, k);
#pragma unroll
    for (u32 s = 0; s < kSide; ++s) {
      ChunkX& chunk = h.words[0][s][k];
      chunk.stay_packed(p.order);
      float y[kCount];
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) y[i] = chunk[i] * rstd[s] * factors.at(k, i);
      chunk.set(y);
      const i64 row = Team::row(first, s);
      if (row >= p.geometry.rows || Team::chunk(k) >= team.chunks()) continue;
      chunk.store_global(p.y + row * p.y_pitch + static_cast<u64>(Team::chunk(k)) * 16);
    }
  }
}

// A block takes a row, any number of elements at any address; the second read comes from a cache.
__device__ __forceinline__ void by_elements(const RmsnormParameters& p) {
  __shared__ RowShared shared;
  prepare_rows<false>(shared);
  RowSum<1, 0, false> sum(shared);
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  for (i64 row = blockIdx.x; row < p.geometry.rows; row += gridDim.x) {
    const u8 *const x = p.x + row * p.x_pitch, *const residual = p.residual + row * p.residual_pitch;
    u8 *const y = p.y + row * p.y_pitch, *const total = p.sum + row * p.sum_pitch;
    const auto input = [&](i64 j) {
      const float one = load_number<kTypeX>(x, j);
      return kResidual ? rounded_number<kTypeX>(one + load_number<kTypeX>(residual, j)) : one;
    };
    float squares[1] = {0.0f};
    for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) {
      const float h = input(j);
      squares[0] += h * h;
    }
    sum(squares);
    const float rstd = root_of(squares[0], inverse_cols, p.eps);
    if (p.rstd != nullptr && threadIdx.x == 0) p.rstd[row] = rstd;
    for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) {
      const float h = input(j);
      if constexpr (kResidual) store_number<kTypeX>(total, j, h);
      const float w = kWeight ? load_number<kTypeW>(p.weight, j) : 1.0f;
      store_number<kTypeX>(y, j, h * rstd * (kZeroCentred ? 1.0f + w : w));
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_rmsnorm(const ridge::cuda::RmsnormParameters p) {
  using namespace ridge::cuda;
  if constexpr (kByChunks && RIDGE_DIRECT != 0) {
    direct(p);
  } else if constexpr (kByChunks) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_elements(p);
  }
}
