// Blocks stay and take row after row of dy and x (device/cuda/kernel/row_loop.cuh): the copy engine brings the next
// rows while the present ones are in registers, from their sum of products to dx. The terms of dweight add up in
// registers, for all rows of a block; each block writes one row of partial sums, and a second kernel adds those in
// their order. Bound by memory: every operand once, and the partial sums, which stay in the second-level cache. Rows
// that do not start on 16 bytes, are no multiple of 16 bytes long, or are longer than 256 KiB go by elements: they are
// read twice and add up in the partial sums themselves.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "CHUNKS"
values = [0, 1, 2, 4]
default = 0
category = "tile"
title = "chunks of 16 bytes of a thread, in rows that a block takes; 0: 2, of rows longer than 32 KiB 4"
[[tunable]]
name = "SM_THREADS"
values = [256, 512]
default = 512
category = "launch"
title = "threads of a multiprocessor"
[[tunable]]
name = "RING_KIB"
values = [0, 96, 128, 160, 192]
default = 0
category = "pipeline"
title = "shared memory of a multiprocessor for rows that are on their way, KiB; 0: 128, of rows longer than 32 KiB 192"
*/
/* ridge-kernel
op = "rmsnorm_backward"
max_registers = 128
sass = [{ opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "weight == 2 ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WEIGHT = { value = "weight != 0" }
RIDGE_ZERO_CENTRED = { value = "zero_centred" }
RIDGE_RESIDUAL = { value = "residual" }
RIDGE_WANTED = { value = "wanted", names = ["kDx", "kDweight", "kBoth"] }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_THREAD = { value = "per_thread" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
chunks4 = { CHUNKS = 4, RING_KIB = 192 }
chunks4_threads256 = { CHUNKS = 4, SM_THREADS = 256, RING_KIB = 192 }
[variants]
bf16_128 = { case = "rmsnorm_backward rows=8192 cols=128" }
bf16_1024 = { case = "rmsnorm_backward rows=8192 cols=1024" }
bf16_4096 = { case = "rmsnorm_backward rows=8192 cols=4096", every = true }
bf16_65536 = { case = "rmsnorm_backward rows=1024 cols=65536" }
bf16_odd = { case = "rmsnorm_backward rows=64 cols=4097" }
bf16_8192_f32_weight = { case = "rmsnorm_backward rows=8192 cols=8192 weight=f32 zero_centred=1" }
bf16_8192_residual = { case = "rmsnorm_backward rows=8192 cols=8192 residual=1" }
bf16_8192_residual_f32_weight = { case = "rmsnorm_backward rows=8192 cols=8192 residual=1 weight=f32" }
f16_8192 = { case = "rmsnorm_backward rows=8192 cols=8192 dtype=f16" }
f32_8192 = { case = "rmsnorm_backward rows=8192 cols=8192 dtype=f32" }
f32_1024_residual = { case = "rmsnorm_backward rows=8192 cols=1000 dtype=f32 residual=1" }
bf16_8192_dx = { case = "rmsnorm_backward rows=8192 cols=8192 wanted=dx" }
bf16_8192_dweight = { case = "rmsnorm_backward rows=8192 cols=8192 wanted=dweight" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "floor_div(cols * x_bytes, 16)"
[[value]]
name = "most_chunks"
expression = "CHUNKS > 0 ? CHUNKS : chunks <= 2048 ? 2 : 4"
[[value]]
name = "ring_kib"
expression = "RING_KIB > 0 ? RING_KIB : chunks <= 2048 ? 128 : 192"
# Longer rows than eight blocks keep go by elements.
[[value]]
name = "by_chunks"
expression = "vectors && chunks <= 4096 * most_chunks"
[[value]]
name = "lanes"
expression = "by_chunks == 0 || chunks > 64 ? 0 : chunks > 16 ? 32 : chunks > 8 ? 16 : chunks > 4 ? 8 : chunks > 2 ? 4 : chunks > 1 ? 2 : 1"
[[value]]
name = "blocks"
expression = "by_chunks == 0 || chunks <= 512 * most_chunks ? 1 : chunks <= 1024 * most_chunks ? 2 : chunks <= 2048 * most_chunks ? 4 : 8"
[[value]]
name = "slice"
expression = "ceil_div(chunks, blocks)"
[[value]]
name = "per_thread"
expression = "by_chunks == 0 || chunks <= 32 ? 1 : lanes == 0 ? most_chunks : 2"
[[value]]
name = "threads"
expression = "by_chunks == 0 || lanes > 0 ? 256 : max(64, round_up(ceil_div(slice, most_chunks), 32))"
# Blocks of a multiprocessor, and what a ring of one of them, or of one of its warps, may take.
[[value]]
name = "resident"
expression = "max(1, min(8, floor_div(SM_THREADS, threads)))"
[[value]]
name = "ring"
expression = "floor_div(1024 * ring_kib, resident * (lanes > 0 ? 8 : 1))"
[[value]]
name = "inputs"
expression = "2 + residual"
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
expression = "by_chunks == 0 || resident * (3072 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1)) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[workspace]]
name = "partial"
bytes = "wanted == 0 ? 0 : 4 * cols * (by_chunks == 0 ? min(rows, 2 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : min(rows, floor_div(resident * sm_count, blocks)))"
[[struct]]
name = "parameters"
members = [
  { operand = "dy" }, { operand = "x" }, { operand = "rstd" }, { operand = "weight", when = "weight" }, { operand = "dsum", when = "residual" },
  { operand = "dx", when = "wanted != 1" }, { operand = "dweight", when = "wanted != 0" }, { workspace = "partial" },
  { i64 = "dy_stride0 * x_bytes" }, { i64 = "x_stride0 * x_bytes" }, { i64 = "dsum_stride0 * x_bytes", when = "residual" },
  { i64 = "dx_stride0 * x_bytes", when = "wanted != 1" },
  { i64 = "rows" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "stages" }, { u32 = "stage_rows" },
  { i64 = "cols" },
  { u32 = "by_chunks == 0 ? min(rows, 2 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : min(rows, floor_div(resident * sm_count, blocks))" },
  { u32 = "12816" },
]
[[kernel]]
symbol = "ridge_rmsnorm_backward"
grid = ["by_chunks == 0 ? min(rows, 2 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : blocks * min(rows, floor_div(resident * sm_count, blocks))"]
block = ["threads"]
cluster = ["blocks"]
shared = "by_chunks ? 2048 + max(16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1), lanes > 0 ? 4 * cols : 0) : 0"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_rmsnorm_dweight"
grid = ["ceil_div(cols, 32)"]
block = [256]
when = "wanted != 0"
overlap_previous = true
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../../device/cuda/kernel/row_loop.cuh"

namespace ridge::cuda {

enum class Wanted { kDx, kDweight, kBoth };

// As the launch plan fills it; pitches in bytes.
struct RmsnormBackwardParameters {
  const u8 *dy, *x;
  const float* rstd;
  const u8 *weight, *dsum;
  u8 *dx, *dweight;
  float* partial;  // [parts, cols]
  i64 dy_pitch, x_pitch, dsum_pitch, dx_pitch;
  RowGeometry geometry;
  i64 cols;
  u32 parts;
  u32 order;  // kInOrder
};

namespace {

constexpr Number kTypeX = Number::RIDGE_TYPE_X, kTypeW = Number::RIDGE_TYPE_W;
constexpr Wanted kWanted = Wanted::RIDGE_WANTED;
constexpr bool kDx = kWanted != Wanted::kDweight, kDweight = kWanted != Wanted::kDx;
constexpr bool kWeight = RIDGE_WEIGHT != 0 && kDx, kZeroCentred = RIDGE_ZERO_CENTRED != 0,
               kResidual = RIDGE_RESIDUAL != 0;
constexpr bool kByChunks = RIDGE_VECTORS != 0, kCluster = RIDGE_CLUSTER != 0;
constexpr u32 kLanes = RIDGE_LANES, kPerThread = RIDGE_PER_THREAD, kInputs = kResidual ? 3 : 2;

using ChunkX = Chunk<kTypeX>;
constexpr u32 kCount = ChunkX::kCount;                         // elements of a chunk of x
constexpr u32 kWeightChunks = kCount / Chunk<kTypeW>::kCount;  // of the weight for one of x
constexpr u32 kWeightBytes = kCount * Chunk<kTypeW>::kBytes;   // and their bytes

// The factors of a thread's columns, as they are stored.
struct Factors {
  Chunk<kTypeW> words[kWeight ? kPerThread : 1][kWeight ? kWeightChunks : 1];

  template <class Loop>
  __device__ __forceinline__ void load(const Loop& loop, const u8* weight) {
    if constexpr (kWeight) {
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        const u32 c = loop.chunk(k);
        const u8* const from = weight + static_cast<u64>(loop.first_chunk() + c) * kWeightBytes;
#pragma unroll
        for (u32 i = 0; i < kWeightChunks; ++i) {
          words[k][i].clear();
          if (c < loop.chunks()) words[k][i].load_global(from + i * 16);
        }
      }
    }
  }
  __device__ __forceinline__ void stay_packed(u32 order) {
    if constexpr (kWeight) {
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
        for (u32 i = 0; i < kWeightChunks; ++i) words[k][i].stay_packed(order);
      }
    }
  }
  __device__ __forceinline__ float at(u32 k, u32 i) const {
    if constexpr (!kWeight) return 1.0f;
    const float w = words[k][i / Chunk<kTypeW>::kCount][i % Chunk<kTypeW>::kCount];
    return kZeroCentred ? 1.0f + w : w;
  }
};

using Totals = float[kDweight ? kPerThread : 1][kDweight ? kCount : 1];

// The sums of a block to its row of `partial`. Of short rows threads share columns: lanes of a warp and then warps are
// added in their order.
template <class Loop>
__device__ __forceinline__ void write_block_totals(const RmsnormBackwardParameters& p, const Loop& loop,
                                                   const Totals& totals) {
  const u32 part = blockIdx.x / (kCluster ? cluster_blocks() : 1);
  float* const to = p.partial + part * p.cols + static_cast<u64>(loop.first_chunk()) * kCount;
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    if (loop.chunk(k) >= loop.chunks()) continue;
#pragma unroll
    for (u32 i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(to + static_cast<u64>(loop.chunk(k)) * kCount + i) =
          make_float4(totals[k][i], totals[k][i + 1], totals[k][i + 2], totals[k][i + 3]);
    }
  }
}
template <class Loop>
__device__ __forceinline__ void write_warp_totals(const RmsnormBackwardParameters& p, const Loop& loop, Totals& totals,
                                                  u8* memory) {
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
#pragma unroll
      for (u32 mask = kLanes; mask < kWarpThreads; mask *= 2) {
        totals[k][i] += __shfl_xor_sync(~0u, totals[k][i], static_cast<int>(mask));
      }
    }
  }
  float* const sums = reinterpret_cast<float*>(memory + kRowHeader);  // over the rings, which nothing fills any more
  for (u32 warp = 0; warp < blockDim.x / kWarpThreads; ++warp) {
    __syncthreads();
    if (threadIdx.x / kWarpThreads != warp || threadIdx.x % kWarpThreads >= kLanes) continue;
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (loop.chunk(k) >= loop.chunks()) continue;
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        float& sum = sums[loop.chunk(k) * kCount + i];
        sum = warp == 0 ? totals[k][i] : sum + totals[k][i];
      }
    }
  }
  __syncthreads();
  for (u32 j = threadIdx.x; j < p.cols; j += blockDim.x) p.partial[blockIdx.x * p.cols + j] = sums[j];
}

__device__ __forceinline__ void by_chunks(const RmsnormBackwardParameters& p, u8* memory) {
  RowShared& shared = *reinterpret_cast<RowShared*>(memory);
  prepare_rows<kCluster>(shared);
  RowInput inputs[kInputs];
  inputs[0] = {p.dy, p.dy_pitch};
  inputs[1] = {p.x, p.x_pitch};
  if constexpr (kResidual) inputs[2] = {p.dsum, p.dsum_pitch};
  RowLoop<kInputs, kLanes, kCluster> loop(p.geometry, inputs, shared);
  RowSum<1, kLanes, kCluster> sum(shared);
  Factors factors;
  factors.load(loop, p.weight);
  Totals totals = {};
  const i64 rows = p.geometry.rows;
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  // Of a block's next row, read one row ahead.
  float next_rstd = kLanes == 0 && loop.more() ? __ldg(p.rstd + loop.row(0)) : 0.0f;
  for (; loop.more(); loop.advance()) {
    const float block_rstd = next_rstd;
    if (kLanes == 0 && loop.next_row(0) < rows) next_rstd = __ldg(p.rstd + loop.next_row(0));
    loop.wait();
    for (u32 pass = 0; pass < loop.passes(); ++pass) {
      const i64 row = loop.row(pass);
      const bool there = row < rows;
      const float rstd = kLanes == 0 ? block_rstd : there ? __ldg(p.rstd + row) : 0.0f;
      ChunkX dy[kPerThread], x[kPerThread], more[kResidual ? kPerThread : 1];
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        const u32 c = loop.chunk(k);
        dy[k].clear(), x[k].clear();
        if constexpr (kResidual) more[k].clear();
        if (c >= loop.chunks() || !there) continue;
        dy[k].load_shared(loop.address(0, pass, c));
        x[k].load_shared(loop.address(1, pass, c));
        if constexpr (kResidual) more[k].load_shared(loop.address(2, pass, c));
      }
      float products[1] = {0.0f};
      if constexpr (kDx) {
        factors.stay_packed(p.order);
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
          for (u32 i = 0; i < kCount; ++i) products[0] += dy[k][i] * factors.at(k, i) * x[k][i];
        }
        sum(products);
        factors.stay_packed(p.order);
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) dy[k].stay_packed(p.order), x[k].stay_packed(p.order);
      }
      if (pass + 1 == loop.passes()) loop.release(kDx);
      const float c = products[0] * inverse_cols * rstd * rstd;
      u8* const to = p.dx + row * p.dx_pitch + static_cast<u64>(loop.first_chunk()) * 16;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        float dx[kCount];
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
          const float one_dy = dy[k][i], one_x = x[k][i];
          if constexpr (kDweight) totals[k][i] += one_dy * (one_x * rstd);
          if constexpr (kDx) dx[i] = (one_dy * factors.at(k, i) - c * one_x) * rstd;
          if constexpr (kResidual) dx[i] += more[k][i];
        }
        if constexpr (!kDx) continue;
        ChunkX out;
        out.set(dx);
        if (there && loop.chunk(k) < loop.chunks()) out.store_global(to + static_cast<u64>(loop.chunk(k)) * 16);
      }
    }
  }
  if constexpr (kDweight && kLanes == 0) write_block_totals(p, loop, totals);
  if constexpr (kDweight && kLanes != 0) write_warp_totals(p, loop, totals, memory);
  leave_rows<kCluster>();
}

// A block takes rows of any number of elements at any address. Every thread has its columns, also of the partial sums.
__device__ __forceinline__ void by_elements(const RmsnormBackwardParameters& p) {
  __shared__ RowShared shared;
  prepare_rows<false>(shared);
  RowSum<1, 0, false> sum(shared);
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  float* const totals = p.partial + blockIdx.x * p.cols;
  for (i64 row = blockIdx.x; row < p.geometry.rows; row += gridDim.x) {
    const u8 *const dy = p.dy + row * p.dy_pitch, *const x = p.x + row * p.x_pitch,
                    *const dsum = p.dsum + row * p.dsum_pitch;
    u8* const dx = p.dx + row * p.dx_pitch;
    const auto weighted = [&](i64 j) {
      const float one = load_number<kTypeX>(dy, j), w = kWeight ? load_number<kTypeW>(p.weight, j) : 1.0f;
      return one * (kWeight && kZeroCentred ? 1.0f + w : w);
    };
    const float rstd = p.rstd[row];
    float products[1] = {0.0f};
    if constexpr (kDx) {
      for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) products[0] += weighted(j) * load_number<kTypeX>(x, j);
      sum(products);
    }
    const float c = products[0] * inverse_cols * rstd * rstd;
    for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) {
      const float one = load_number<kTypeX>(x, j);
      if constexpr (kDx) {
        const float slope = (weighted(j) - c * one) * rstd;
        store_number<kTypeX>(dx, j, kResidual ? slope + load_number<kTypeX>(dsum, j) : slope);
      }
      if constexpr (kDweight) {
        const float term = load_number<kTypeX>(dy, j) * (one * rstd);
        totals[j] = row == blockIdx.x ? term : totals[j] + term;
      }
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(512, 1)
    ridge_rmsnorm_backward(const ridge::cuda::RmsnormBackwardParameters p) {
  using namespace ridge::cuda;
  let_next_grid_start();
  if constexpr (kByChunks) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_elements(p);
  }
}

// dweight: a block adds up the rows of partial sums for 32 columns, 32 rows side by side and then those, in their
// order.
extern "C" __global__ void __launch_bounds__(256)
    ridge_rmsnorm_dweight(const ridge::cuda::RmsnormBackwardParameters p) {
  using namespace ridge::cuda;
  constexpr u32 kColumns = 32, kSide = 256 / (kColumns / 4);
  __shared__ float sums[kSide][kColumns];
  const u32 first = threadIdx.x % (kColumns / 4) * 4, side = threadIdx.x / (kColumns / 4);
  const i64 column = static_cast<i64>(blockIdx.x) * kColumns + first;
  float total[4] = {};
  wait_for_prior_grid();
  const bool aligned = p.cols % 4 == 0;
  for (u32 part = side; part < p.parts; part += kSide) {
    const float* const from = p.partial + part * p.cols + column;
    if (aligned && column < p.cols) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
      total[0] += four.x, total[1] += four.y, total[2] += four.z, total[3] += four.w;
      continue;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (column + i < p.cols) total[i] += __ldcg(from + i);
    }
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i) sums[side][first + i] = total[i];
  __syncthreads();
  const i64 own = static_cast<i64>(blockIdx.x) * kColumns + threadIdx.x;
  if (threadIdx.x >= kColumns || own >= p.cols) return;
  float sum = 0.0f;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) sum += sums[i][threadIdx.x];
  store_number<kTypeW>(p.dweight, own, sum);
}
