// A row is read once from memory and its result written once. Its numbers stay in registers from the largest of them to
// the result, for softmax as their powers, so that an exponential is made once. A part of a warp takes a row of up to
// 2 KiB, a block one of up to 32 KiB, a cluster of four or eight blocks one of 64 to 256 KiB (131072 columns of 16
// bits). Each warp finds the largest number of its part and adds up the powers beside it; warps, and blocks of a
// cluster, then meet once, with both. Blocks stay and take row after row, which the copy engine brings while the
// present one is in registers (device/cuda/kernel/row_loop.cuh), or load rows of up to 32 KiB straight into registers
// (row_direct.cuh), which is what a call takes where nothing else is asked for. Between 32 and 64 KiB a block takes a
// row and reads it again from the first-level cache for its results; threads hold nothing of it while they wait for its
// sum, and the exponentials are made twice. Bound by memory; an exponential that is exact to its last steps, for
// results in fp32, takes half of the issue slots of a multiprocessor at 4.3 TB/s, the approximate one of other results
// less. Rows that do not start on 16 bytes, are no multiple of 16 bytes long, or are longer, are the work of a block,
// which reads them twice, in chunks as far as there are; of logsumexp once.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "DIRECT"
values = [0, 1, 2, 3]
default = 2
category = "algorithm"
title = "blocks that come and go: never, with rows in registers, by the length of rows, with rows read again from a cache"
[[tunable]]
name = "CHUNKS"
values = [1, 2, 4]
default = 4
category = "tile"
title = "chunks of 16 bytes of a thread, in rows that a block takes"
[[tunable]]
name = "SM_THREADS"
values = [256, 512, 1024]
default = 512
category = "resource"
title = "threads of a multiprocessor"
[[tunable]]
name = "RING_KIB"
values = [96, 128, 160, 192]
default = 192
category = "pipeline"
title = "shared memory of a multiprocessor for rows that are on their way, KiB"
[[constraint]]
expression = "(DIRECT != 1 && DIRECT != 3) || (SM_THREADS == 1024 && RING_KIB == 192)"
reason = "a ring, or threads that hold rows"
[[constraint]]
expression = "SM_THREADS <= 512 || CHUNKS <= 2 || DIRECT == 3"
reason = "registers for the powers of four chunks"
*/
/* ridge-kernel
op = "softmax"
max_registers = 128
sass = [{ opcode = "UBLKCP", when = "by_chunks && direct == 0 && again == 0" }, { opcode = "MUFU" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_Y = { value = "out", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FORM = { value = "form", names = ["kSoftmax", "kLogSoftmax", "kLogSumExp"] }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_THREAD = { value = "per_thread" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "most_threads" }
RIDGE_BLOCK_THREADS = { value = "again ? threads : 0" }
RIDGE_DIRECT = { value = "direct + 2 * again" }
RIDGE_BLOCKS = { value = "by_chunks == 0 ? 4 : max(1, floor_div(again ? 1536 : direct ? direct_threads : SM_THREADS, most_threads))" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
ring = { DIRECT = 0 }
direct = { DIRECT = 1, CHUNKS = 2, SM_THREADS = 1024 }
again = { DIRECT = 3, SM_THREADS = 1024 }
chunks2 = { CHUNKS = 2 }
chunks2_threads1024 = { CHUNKS = 2, SM_THREADS = 1024 }
threads256 = { SM_THREADS = 256 }
ring_kib96 = { RING_KIB = 96, promoted = "softmax_cuda_nvidia-h100-80gb-hbm3_20261126, 1.02x" }
[variants]
bf16_128 = { case = "softmax rows=8192 cols=128" }
bf16_512 = { case = "softmax rows=131072 cols=512", every = true }
bf16_4096 = { case = "softmax rows=16384 cols=4096", every = true }
bf16_8192 = { case = "softmax rows=8192 cols=8192", every = true }
bf16_32768 = { case = "softmax rows=4096 cols=32768", every = true }
bf16_131072 = { case = "softmax rows=1024 cols=131072" }
bf16_odd = { case = "softmax rows=64 cols=4097" }
bf16_400000 = { case = "softmax rows=64 cols=400000" }
bf16_8192_f32 = { case = "softmax rows=8192 cols=8192 out=f32" }
bf16_128_f32 = { case = "softmax rows=8192 cols=128 out=f32" }
bf16_odd_f32 = { case = "softmax rows=64 cols=4097 out=f32" }
f16_8192 = { case = "softmax rows=8192 cols=8192 dtype=f16" }
f32_8192 = { case = "softmax rows=8192 cols=8192 dtype=f32" }
f32_1000 = { case = "softmax rows=8192 cols=1000 dtype=f32" }
f32_64 = { case = "softmax rows=8192 cols=64 dtype=f32" }
bf16_8192_log = { case = "softmax rows=8192 cols=8192 form=log_softmax" }
bf16_256_log = { case = "softmax rows=8192 cols=256 form=log_softmax" }
bf16_131072_log = { case = "softmax rows=1024 cols=131072 form=log_softmax" }
bf16_odd_log = { case = "softmax rows=64 cols=4097 form=log_softmax" }
f32_8192_log = { case = "softmax rows=8192 cols=8192 dtype=f32 form=log_softmax" }
bf16_8192_sum = { case = "softmax rows=8192 cols=8192 form=logsumexp" }
bf16_256_sum = { case = "softmax rows=8192 cols=256 form=logsumexp" }
bf16_131072_sum = { case = "softmax rows=1024 cols=131072 form=logsumexp" }
bf16_odd_sum = { case = "softmax rows=64 cols=4097 form=logsumexp" }
f32_8192_sum = { case = "softmax rows=8192 cols=8192 dtype=f32 form=logsumexp" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "floor_div(cols * x_bytes, 16)"
# Longer rows than eight blocks keep are read twice.
[[value]]
name = "by_chunks"
expression = "vectors && chunks <= 4096 * CHUNKS"
[[value]]
name = "direct"
expression = "by_chunks && chunks <= 1024 * CHUNKS && (DIRECT == 1 || (DIRECT == 2 && chunks <= 32))"
[[value]]
name = "again"
expression = "by_chunks && chunks > 128 && (DIRECT == 3 || (DIRECT == 2 && chunks > 2048 && chunks <= 4096))"
[[value]]
name = "per_thread"
expression = "again ? (chunks > 1024 ? 4 : 2) : by_chunks == 0 || chunks <= (direct ? 8 : 32) ? 1 : chunks <= 64 ? min(2, CHUNKS) : CHUNKS"
[[value]]
name = "wanted_lanes"
expression = "ceil_div(chunks, per_thread)"
[[value]]
name = "lanes"
expression = "by_chunks == 0 || again || wanted_lanes > 32 ? 0 : wanted_lanes > 16 ? 32 : wanted_lanes > 8 ? 16 : wanted_lanes > 4 ? 8 : wanted_lanes > 2 ? 4 : wanted_lanes > 1 ? 2 : 1"
[[value]]
name = "blocks"
expression = "by_chunks == 0 || direct ? 1 : again ? (chunks <= 4096 ? 1 : chunks <= 8192 ? 2 : chunks <= 16384 ? 4 : 8) : chunks <= 512 * CHUNKS ? 1 : chunks <= 1024 * CHUNKS ? 2 : chunks <= 2048 * CHUNKS ? 4 : 8"
[[value]]
name = "slice"
expression = "ceil_div(chunks, blocks)"
[[value]]
name = "threads"
expression = "by_chunks == 0 || lanes > 0 ? 256 : again ? max(64, min(512, round_up(ceil_div(slice, per_thread), 32))) : max(64, round_up(ceil_div(slice, per_thread), 32))"
[[value]]
name = "most_threads"
expression = "by_chunks == 0 ? 256 : threads > 512 ? 1024 : 512"
# Direct: rows of a team at once, and of a block, and how many threads have registers for the powers of their chunks.
[[value]]
name = "side"
expression = "direct && lanes > 0 ? max(1, floor_div(2, per_thread)) : 1"
[[value]]
name = "direct_threads"
expression = "per_thread * side > 2 || lanes == 0 ? 512 : 1024"
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
name = "pass_rows"
expression = "lanes > 0 ? floor_div(32, lanes) : 1"
# Short rows share a stage: four stages in a ring, and no more rows than keep every warp busy.
[[value]]
name = "stage_rows"
expression = "lanes == 0 ? 1 : pass_rows * max(1, min(floor_div(ring, 64 * chunks * pass_rows), ceil_div(rows, 2048 * pass_rows)))"
[[value]]
name = "stages"
expression = "max(2, min(8, floor_div(ring, 16 * max(1, slice) * stage_rows)))"
[[needs]]
expression = "DIRECT != 3 || again"
reason = "read again: rows of 2 KiB and more that start on 16 bytes and that the blocks of a cluster hold"
[[needs]]
expression = "DIRECT != 1 || direct"
reason = "direct: rows that start on 16 bytes, and that the threads of a block hold"
[[needs]]
expression = "by_chunks == 0 || threads <= 1024"
reason = "a block has at most 1024 threads"
[[needs]]
expression = "by_chunks == 0 || direct || again || resident * (3072 + 16 * slice * stage_rows * stages * (lanes > 0 ? 8 : 1)) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[kernel]]
symbol = "ridge_softmax"
grid = ["again ? blocks * rows : direct ? ceil_div(rows, turn_rows) : by_chunks == 0 ? min(rows, 4 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : blocks * min(rows, floor_div(resident * sm_count, blocks))"]
block = ["threads"]
persistent = "again ? 0 : 1"
cluster = ["blocks"]
shared = "by_chunks && direct == 0 && again == 0 ? 2048 + 16 * slice * stage_rows * stages * (lanes > 0 ? 8 : 1) : 0"
args = [{ struct = [
  { operand = "x" }, { operand = "y", when = "form != 2" }, { operand = "lse", when = "form == 2" },
  { i64 = "x_stride0 * x_bytes" }, { i64 = "y_stride0 * y_bytes", when = "form != 2" },
  { i64 = "rows" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "stages" }, { u32 = "stage_rows" },
  { i64 = "cols" }, { f32 = "scale" }, { u32 = "12816" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/row_direct.cuh"
#include "../../device/cuda/kernel/row_loop.cuh"
#include "cuda_rows.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes. Null: of another form.
struct SoftmaxParameters {
  const u8* x;
  u8* y;
  float* lse;
  i64 x_pitch, y_pitch;
  RowGeometry geometry;
  i64 cols;
  float scale;
  u32 order;  // kInOrder
};

namespace {

enum class Form { kSoftmax, kLogSoftmax, kLogSumExp };

constexpr Number kTypeX = Number::RIDGE_TYPE_X, kTypeY = Number::RIDGE_TYPE_Y;
constexpr Form kForm = Form::RIDGE_FORM;
constexpr bool kCluster = RIDGE_CLUSTER != 0;
constexpr u32 kThreads = RIDGE_BLOCK_THREADS;  // of rows that are read again
constexpr u32 kLanes = RIDGE_LANES, kPerThread = RIDGE_PER_THREAD, kSide = RIDGE_SIDE;

using ChunkX = Chunk<kTypeX>;
constexpr u32 kCount = ChunkX::kCount;  // elements of a chunk of x
using Results = Numbers<kTypeY, kCount>;

// exp(z - base). Where single powers are results in fp32 it is exact to its last steps; in a sum, and where results
// have 16 bits, the product with log2 e may round to a part of the exponent.
__device__ __forceinline__ float power(float distance) {
  if constexpr (kForm == Form::kSoftmax && kTypeY == Number::kF32) return expf(distance);
  return exp2_approx(distance * 1.44269504f);
}

// The largest z of some chunks, which is that of their largest number, or of the smallest where the scale is negative.
// Found in the numbers as they are stored: two of 16 bits at once.
template <bool kLeast, u32 kChunks, class Has>
__device__ __forceinline__ float extreme_of(const ChunkX (&chunks)[kChunks], const Has& has, float scale) {
  constexpr u32 kInfinity = kTypeX == Number::kF32 ? 0x7F800000u : kTypeX == Number::kBf16 ? 0x7F807F80u : 0x7C007C00u;
  constexpr u32 kSign = kTypeX == Number::kF32 ? 0x80000000u : 0x80008000u;
  ChunkX most;
#pragma unroll
  for (u32 w = 0; w < ChunkX::kWords; ++w) most.words[w] = kLeast ? kInfinity : kInfinity | kSign;
#pragma unroll
  for (u32 k = 0; k < kChunks; ++k) {
    if (!has(k)) continue;
#pragma unroll
    for (u32 w = 0; w < ChunkX::kWords; ++w) {
      most.words[w] = extreme<kTypeX, kLeast>(most.words[w], chunks[k].words[w]);
    }
  }
#pragma unroll
  for (u32 width = ChunkX::kWords / 2; width > 0; width /= 2) {
#pragma unroll
    for (u32 w = 0; w < width; ++w) most.words[w] = extreme<kTypeX, kLeast>(most.words[w], most.words[w + width]);
  }
  float found = scale * most[0];
  if constexpr (ChunkX::kPerWord == 2) found = fmaxf(found, scale * most[1]);
  return fmaxf(found, minus_infinity());  // 0 times infinity where there is none
}
template <u32 kChunks, class Has>
__device__ __forceinline__ float largest_of(const ChunkX (&chunks)[kChunks], const Has& has, float scale) {
  return scale < 0.0f ? extreme_of<true>(chunks, has, scale) : extreme_of<false>(chunks, has, scale);
}

// The largest z of some numbers, and the sum of their powers beside it. Beside an infinite one powers are made beside
// the number of fp32 that is next to it: then +infinity alone has an infinite power, and the sum shows a NaN.
struct Found {
  float most = minus_infinity(), sum = 0.0f;

  __device__ __forceinline__ static float base_of(float most) { return fminf(fmaxf(most, -kMostFloat), kMostFloat); }
  __device__ __forceinline__ float base() const { return base_of(most); }

  template <u32 kWidth>
  __device__ __forceinline__ static float largest_of_lanes(float value) {
#pragma unroll
    for (u32 mask = kWidth / 2; mask > 0; mask /= 2) {
      value = fmaxf(value, __shfl_xor_sync(~0u, value, static_cast<int>(mask)));
    }
    return value;
  }
  template <u32 kWidth>
  __device__ __forceinline__ static float sum_of_lanes(float value) {
#pragma unroll
    for (u32 mask = kWidth / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, static_cast<int>(mask));
    return value;
  }
  // Of what so many lanes found, each beside its own largest number; for all of them, in an order of its own.
  template <u32 kWidth>
  __device__ __forceinline__ void over_lanes() {
    const float largest = largest_of_lanes<kWidth>(most);
    sum = sum_of_lanes<kWidth>(sum * expf(base() - base_of(largest)));
    most = largest;
  }

  // Whether a row is a distribution: its sum is a number from 1.
  __device__ __forceinline__ bool proper() const { return fabsf(most) <= kMostFloat; }
  __device__ __forceinline__ float log_of_sum() const { return base() + logf(sum); }
};

// What a thread has of a row: its numbers, and for softmax their powers beside its warp's largest.
struct Part {
  ChunkX words[kPerThread];
  float powers[kForm == Form::kSoftmax ? kPerThread : 1][kForm == Form::kSoftmax ? kCount : 1];

  // For all lanes of the part of a warp that has the row, or of the warp.
  template <class Place>
  __device__ __forceinline__ Found find(const Place& place, float scale, u32 order) {
    constexpr u32 kWidth = kLanes == 0 ? kWarpThreads : kLanes;
    const auto has = [&](u32 k) { return place.chunk(k) < place.chunks(); };
    Found found;
    found.most = Found::largest_of_lanes<kWidth>(largest_of(words, has, scale));
    const float base = found.base();
    float sums[4] = {};  // side by side: an addition waits for the one before
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (place.chunk(k) >= place.chunks()) continue;
      words[k].stay_packed(order);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        const float one = power(scale * words[k][i] - base);
        if constexpr (kForm == Form::kSoftmax) powers[k][i] = one;
        sums[i % 4] += one;
      }
    }
    found.sum = Found::sum_of_lanes<kWidth>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    return found;
  }

  // `own`: beside which the powers are; `all`: of the row, whose results begin at `to` with the block's first chunk.
  template <class Place>
  __device__ __forceinline__ void write(const Place& place, const Found& own, const Found& all, float scale, u32 order,
                                        u8* to) {
    const float nothing = all.proper() ? 0.0f : not_a_number();
    const float share = kForm == Form::kSoftmax ? expf(own.base() - all.base()) / all.sum + nothing : 0.0f;
    const float log_sum = kForm == Form::kLogSoftmax ? logf(all.sum) + nothing : 0.0f;
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (place.chunk(k) >= place.chunks()) continue;
      float y[kCount];
      if constexpr (kForm == Form::kLogSoftmax) words[k].stay_packed(order);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        if constexpr (kForm == Form::kSoftmax) y[i] = powers[k][i] * share;
        if constexpr (kForm == Form::kLogSoftmax) y[i] = (scale * words[k][i] - all.base()) - log_sum;
      }
      Results results;
      results.set(y);
      results.store_global(to + static_cast<u64>(place.chunk(k)) * kCount * Results::kBytes);
    }
  }
};

// What the warps of a row found, for all threads: of its block, and then of its cluster. The memory and the turns are
// those of RowSum (row_loop.cuh), and so is why two halves are enough.
class Meeting {
 public:
  __device__ __forceinline__ explicit Meeting(RowShared& shared) : shared_(shared) {}

  __device__ __forceinline__ void operator()(Found& found) {
    if constexpr (kLanes == 0) over_block(found);
    if constexpr (kCluster) over_cluster(found);
    turn_ ^= 1;
  }

 private:
  // Of `count` entries that lie side by side, kMost at most.
  template <u32 kMost>
  __device__ __forceinline__ static void join(Found& found, const float* most, const float* sum, u32 count) {
    const u32 entry = threadIdx.x % kMost;
    found.most = entry < count ? most[entry] : minus_infinity();
    found.sum = entry < count ? sum[entry] : 0.0f;
    found.over_lanes<kMost>();
  }
  __device__ __forceinline__ void over_block(Found& found) {
    if (threadIdx.x % kWarpThreads == 0) {
      shared_.warps[turn_][0][threadIdx.x / kWarpThreads] = found.most;
      shared_.warps[turn_][1][threadIdx.x / kWarpThreads] = found.sum;
    }
    __syncthreads();
    join<kRowWarps>(found, shared_.warps[turn_][0], shared_.warps[turn_][1], blockDim.x / kWarpThreads);
  }
  __device__ __forceinline__ void over_cluster(Found& found) {
    const u32 blocks = cluster_blocks(), met = shared_address(&shared_.met[turn_]);
    if (threadIdx.x == 0) barrier_arrive_expect_bytes(met, blocks * 8);
    if (threadIdx.x < blocks) {
      u32 barrier;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(met), "r"(threadIdx.x));
      send(&shared_.blocks[turn_][0][cluster_rank()], found.most, barrier);
      send(&shared_.blocks[turn_][1][cluster_rank()], found.sum, barrier);
    }
    barrier_wait(met, parity_ >> turn_ & 1u);
    parity_ ^= 1u << turn_;
    join<kRowBlocks>(found, shared_.blocks[turn_][0], shared_.blocks[turn_][1], blocks);
  }
  // To the block whose rank this thread's index is.
  __device__ __forceinline__ static void send(const float* to, float value, u32 barrier) {
    u32 slot;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(slot) : "r"(shared_address(to)), "r"(threadIdx.x));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(slot),
                 "r"(__float_as_uint(value)), "r"(barrier)
                 : "memory");
  }

  RowShared& shared_;
  u32 turn_ = 0, parity_ = 0;
};

__device__ __forceinline__ void by_chunks(const SoftmaxParameters& p, u8* memory) {
  RowShared& shared = *reinterpret_cast<RowShared*>(memory);
  prepare_rows<kCluster>(shared);
  const RowInput inputs[1] = {{p.x, p.x_pitch}};
  RowLoop<1, kLanes, kCluster> loop(p.geometry, inputs, shared);
  Meeting meet(shared);
  for (; loop.more(); loop.advance()) {
    loop.wait();
    for (u32 pass = 0; pass < loop.passes(); ++pass) {
      const i64 row = loop.row(pass);
      const bool there = row < p.geometry.rows;
      Part part;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        part.words[k].clear();
        if (loop.chunk(k) < loop.chunks() && there) part.words[k].load_shared(loop.address(0, pass, loop.chunk(k)));
      }
      const Found own = part.find(loop, p.scale, p.order);
      Found all = own;
      meet(all);
      if (pass + 1 == loop.passes()) loop.release(true);
      if (!there) continue;
      if constexpr (kForm == Form::kLogSumExp) {
        if (loop.first_chunk() == 0 && loop.chunk(0) == 0) p.lse[row] = all.log_of_sum();
      } else {
        u8* const to = p.y + row * p.y_pitch + static_cast<u64>(loop.first_chunk()) * kCount * Results::kBytes;
        part.write(loop, own, all, p.scale, p.order, to);
      }
    }
  }
  leave_rows<kCluster>();
}

// A block takes a row, or teams of its threads some rows, in registers from memory to the results.
__device__ __forceinline__ void direct(const SoftmaxParameters& p) {
  using Team = RowTeam<kLanes, kSide>;
  __shared__ float warps[2][kWarpThreads];
  const Team team(p.geometry.chunks);
  const i64 first = static_cast<i64>(blockIdx.x) * Team::block_rows();
  Part parts[kSide];
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const i64 row = Team::row(first, s);
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      parts[s].words[k].clear();
      if (row >= p.geometry.rows || Team::chunk(k) >= team.chunks()) continue;
      parts[s].words[k].load_global(p.x + row * p.x_pitch + static_cast<u64>(Team::chunk(k)) * 16);
    }
  }
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const Found own = parts[s].find(team, p.scale, p.order);
    Found all = own;
    if constexpr (kLanes == 0) {
      const u32 lane = threadIdx.x % kWarpThreads, count = blockDim.x / kWarpThreads;
      if (lane == 0) warps[0][threadIdx.x / kWarpThreads] = own.most, warps[1][threadIdx.x / kWarpThreads] = own.sum;
      __syncthreads();
      all.most = lane < count ? warps[0][lane] : minus_infinity();
      all.sum = lane < count ? warps[1][lane] : 0.0f;
      all.over_lanes<kWarpThreads>();
    }
    const i64 row = Team::row(first, s);
    if (row >= p.geometry.rows) continue;
    if constexpr (kForm == Form::kLogSumExp) {
      if (Team::chunk(0) == 0) p.lse[row] = all.log_of_sum();
    } else {
      parts[s].write(team, own, all, p.scale, p.order, p.y + row * p.y_pitch);
    }
  }
}

// A row whose numbers go by, of a thread: powers are made beside a base of its own, which moves with the largest.
struct Passing {
  Found found;

  __device__ __forceinline__ void lift(float largest) {
    if (!(largest > found.most)) return;
    found.sum *= expf(found.base() - Found::base_of(largest));
    found.most = largest;
  }
  __device__ __forceinline__ void add(float z) {
    lift(z);
    found.sum += power(z - found.base());
  }
  // Those chunks of which has(k).
  template <u32 kChunks, class Has>
  __device__ __forceinline__ void add(ChunkX (&chunks)[kChunks], const Has& has, float scale, u32 order) {
    lift(largest_of(chunks, has, scale));
    const float base = found.base();
    float sums[4] = {};
#pragma unroll
    for (u32 k = 0; k < kChunks; ++k) {
      if (!has(k)) continue;
      chunks[k].stay_packed(order);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) sums[i % 4] += power(scale * chunks[k][i] - base);
    }
    found.sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

// The results of a row that is read a second time.
struct RowResult {
  float scale, base, share, log_sum;

  __device__ __forceinline__ RowResult(const Found& all, float scale) : scale(scale), base(all.base()) {
    const float nothing = all.proper() ? 0.0f : not_a_number();
    share = 1.0f / all.sum + nothing, log_sum = logf(all.sum) + nothing;
  }
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (kForm == Form::kSoftmax) return power(scale * x - base) * share;
    return (scale * x - base) - log_sum;
  }
  __device__ __forceinline__ void write(const ChunkX& chunk, u8* to) const {
    float y[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) y[i] = (*this)(chunk[i]);
    Results results;
    results.set(y);
    results.store_global(to);
  }
};

// A block, or a cluster of them, takes a row and reads it again from the first-level cache for its results: threads
// hold nothing of it while they wait for its sum. logsumexp reads it once.
__device__ __forceinline__ void by_reading_again(const SoftmaxParameters& p) {
  constexpr u32 kStep = kPerThread * kThreads;
  __shared__ RowShared shared;
  prepare_rows<kCluster>(shared);
  Meeting meet(shared);
  const u32 blocks = kCluster ? cluster_blocks() : 1, first_chunk = kCluster ? cluster_rank() * p.geometry.slice : 0;
  const u32 chunks = min(p.geometry.slice, p.geometry.chunks - min(first_chunk, p.geometry.chunks));
  const i64 row = blockIdx.x / blocks;
  const u8* const from = p.x + row * p.x_pitch + static_cast<u64>(first_chunk) * 16;
  Passing passing;
  for (u32 first = threadIdx.x; first < chunks; first += kStep) {
    const auto has = [&](u32 k) { return first + k * kThreads < chunks; };
    const u8* const at = from + static_cast<u64>(first) * 16;
    ChunkX words[kPerThread];
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (has(k)) words[k].template load_hinted<kForm != Form::kLogSumExp>(at + k * kThreads * 16);
    }
    passing.add(words, has, p.scale, p.order);
  }
  Found all = passing.found;
  all.over_lanes<kWarpThreads>();
  meet(all);
  if constexpr (kForm == Form::kLogSumExp) {
    if (first_chunk == 0 && threadIdx.x == 0) p.lse[row] = all.log_of_sum();
  } else {
    const RowResult result(all, p.scale);
    u8* const to = p.y + row * p.y_pitch + static_cast<u64>(first_chunk) * kCount * Results::kBytes;
    for (u32 first = threadIdx.x; first < chunks; first += kStep) {
      const u8* const at = from + static_cast<u64>(first) * 16;
      u8* const out = to + static_cast<u64>(first) * kCount * Results::kBytes;
      ChunkX words[kPerThread];
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        if (first + k * kThreads < chunks) words[k].template load_hinted<false>(at + k * kThreads * 16);
      }
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        if (first + k * kThreads < chunks) result.write(words[k], out + k * kThreads * kCount * Results::kBytes);
      }
    }
  }
  leave_rows<kCluster>();
}

// A block takes a row of any number of elements at any address; the second read comes from a cache as far as that has
// room.
__device__ __forceinline__ void by_passes(const SoftmaxParameters& p) {
  constexpr u32 kAhead = 4;  // chunks that a thread loads at once
  __shared__ RowShared shared;
  prepare_rows<false>(shared);
  Meeting meet(shared);
  for (i64 row = blockIdx.x; row < p.geometry.rows; row += gridDim.x) {
    const u8* const from = p.x + row * p.x_pitch;
    u8* const to = kForm == Form::kLogSumExp ? nullptr : p.y + row * p.y_pitch;
    const Span<kCount, ChunkX::kBytes, Results::kBytes> span(from, from, to, p.cols);
    const auto load = [&](ChunkX(&chunks)[kAhead], i64 first) {
#pragma unroll
      for (u32 j = 0; j < kAhead; ++j) {
        const i64 c = first + j * static_cast<i64>(blockDim.x);
        if (c < span.chunks) chunks[j].load_global(from + span.chunk_at(c) * ChunkX::kBytes);
      }
    };
    const i64 step = kAhead * static_cast<i64>(blockDim.x);
    Passing passing;
    for (i64 first = threadIdx.x; first < span.chunks; first += step) {
      ChunkX chunks[kAhead];
      load(chunks, first);
      const auto has = [&](u32 j) { return first + j * static_cast<i64>(blockDim.x) < span.chunks; };
      passing.add(chunks, has, p.scale, p.order);
    }
    for (i64 i = threadIdx.x; i < span.ones(); i += blockDim.x) {
      passing.add(p.scale * load_number<kTypeX>(from, span.one(i)));
    }
    Found all = passing.found;
    all.over_lanes<kWarpThreads>();
    meet(all);
    if constexpr (kForm == Form::kLogSumExp) {
      if (threadIdx.x == 0) p.lse[row] = all.log_of_sum();
    } else {
      const RowResult result(all, p.scale);
      for (i64 first = threadIdx.x; first < span.chunks; first += step) {
        ChunkX chunks[kAhead];
        load(chunks, first);
#pragma unroll
        for (u32 j = 0; j < kAhead; ++j) {
          const i64 c = first + j * static_cast<i64>(blockDim.x);
          if (c < span.chunks) result.write(chunks[j], to + span.chunk_at(c) * Results::kBytes);
        }
      }
      for (i64 i = threadIdx.x; i < span.ones(); i += blockDim.x) {
        const i64 at = span.one(i);
        store_number<kTypeY>(to, at, result(load_number<kTypeX>(from, at)));
      }
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_softmax(const ridge::cuda::SoftmaxParameters p) {
  using namespace ridge::cuda;
  if constexpr (RIDGE_VECTORS != 0 && RIDGE_DIRECT == 2) {
    by_reading_again(p);
  } else if constexpr (RIDGE_VECTORS != 0 && RIDGE_DIRECT == 1) {
    direct(p);
  } else if constexpr (RIDGE_VECTORS != 0) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_passes(p);
  }
}
