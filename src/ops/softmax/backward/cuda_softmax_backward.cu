// Rows of dy and y are read once from memory and dx written once. Bound by memory. In four ways, by their length:
// - up to 512 bytes: teams of a warp's threads hold some rows in registers (device/cuda/kernel/row_direct.cuh);
// - up to 2 KiB, and from 64 KiB to 256 KiB (131072 columns of 16 bits): blocks stay and take row after row, which the
//   copy engine brings while the present one is in registers (row_loop.cuh), a part of a warp a row, or a cluster of
//   two to eight blocks;
// - between: a block takes a row and reads it again from the first-level cache, 5 to 10 % faster there on an H100;
// - longer, not on 16 bytes, or no multiple of 16 bytes long: a block reads it twice, in chunks as far as there are.
// logsumexp has no sum, and its rows of x are read once.

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
values = [0, 1, 2, 4]
default = 0
category = "tile"
title = "chunks of 16 bytes of a thread, in rows that a block takes; 0: 2, of rows longer than 32 KiB 4"
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
*/
/* ridge-kernel
op = "softmax_backward"
max_registers = 128
sass = [{ opcode = "UBLKCP", when = "by_chunks && direct == 0 && again == 0" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_Y = { value = "out", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FORM = { value = "form", names = ["kSoftmax", "kLogSoftmax", "kLogSumExp"] }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_THREAD = { value = "per_thread" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "most_threads" }
RIDGE_DIRECT = { value = "direct + 2 * again" }
RIDGE_BLOCKS = { value = "by_chunks == 0 ? 4 : max(1, floor_div(again ? (per_thread == 4 ? 1024 : 1536) : direct ? 1024 : SM_THREADS, most_threads))" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
ring = { DIRECT = 0 }
direct = { DIRECT = 1, SM_THREADS = 1024 }
again = { DIRECT = 3, SM_THREADS = 1024 }
chunks4 = { DIRECT = 0, CHUNKS = 4 }
chunks1_threads1024 = { DIRECT = 0, CHUNKS = 1, SM_THREADS = 1024 }
chunks2_threads1024 = { DIRECT = 0, CHUNKS = 2, SM_THREADS = 1024 }
[variants]
bf16_128 = { case = "softmax_backward rows=8192 cols=128" }
bf16_512 = { case = "softmax_backward rows=131072 cols=512", every = true }
bf16_4096 = { case = "softmax_backward rows=16384 cols=4096", every = true }
bf16_8192 = { case = "softmax_backward rows=8192 cols=8192", every = true }
bf16_16384 = { case = "softmax_backward rows=4096 cols=16384" }
f16_16384_log = { case = "softmax_backward rows=4096 cols=16384 dtype=f16 form=log_softmax" }
bf16_32768 = { case = "softmax_backward rows=4096 cols=32768", every = true }
bf16_131072 = { case = "softmax_backward rows=1024 cols=131072" }
bf16_odd = { case = "softmax_backward rows=64 cols=4097" }
bf16_8192_f32 = { case = "softmax_backward rows=8192 cols=8192 out=f32" }
bf16_64_f32 = { case = "softmax_backward rows=8192 cols=64 out=f32" }
bf16_odd_f32 = { case = "softmax_backward rows=64 cols=4097 out=f32" }
f16_8192 = { case = "softmax_backward rows=8192 cols=8192 dtype=f16" }
f32_8192 = { case = "softmax_backward rows=8192 cols=8192 dtype=f32" }
f32_1000 = { case = "softmax_backward rows=8192 cols=1000 dtype=f32" }
bf16_8192_log = { case = "softmax_backward rows=8192 cols=8192 form=log_softmax" }
bf16_256_log = { case = "softmax_backward rows=8192 cols=256 form=log_softmax" }
bf16_odd_log = { case = "softmax_backward rows=64 cols=4097 form=log_softmax" }
f32_65536_log = { case = "softmax_backward rows=1024 cols=65536 dtype=f32 form=log_softmax" }
bf16_8192_sum = { case = "softmax_backward rows=8192 cols=8192 form=logsumexp" }
bf16_256_sum = { case = "softmax_backward rows=8192 cols=256 form=logsumexp" }
bf16_odd_sum = { case = "softmax_backward rows=64 cols=4097 form=logsumexp" }
f32_8192_sum = { case = "softmax_backward rows=8192 cols=8192 dtype=f32 form=logsumexp" }
*/
/* ridge-launch
# Of what is read: of x for logsumexp, else of dy and y.
[[value]]
name = "in_bytes"
expression = "(form == 2 ? dtype : out) == 0 ? 4 : 2"
[[value]]
name = "inputs"
expression = "form == 2 ? 1 : 2"
[[value]]
name = "chunks"
expression = "floor_div(cols * in_bytes, 16)"
[[value]]
name = "most_chunks"
expression = "CHUNKS > 0 ? CHUNKS : chunks <= 2048 ? 2 : 4"
# Longer rows than eight blocks keep are read twice.
[[value]]
name = "by_chunks"
expression = "vectors && chunks <= 4096 * most_chunks"
[[value]]
name = "direct"
expression = "by_chunks && chunks <= 1024 * most_chunks && (DIRECT == 1 || (DIRECT == 2 && chunks <= 32))"
[[value]]
name = "again"
expression = "by_chunks && chunks > 128 && chunks <= 4096 && DIRECT >= 2"
[[value]]
name = "per_thread"
expression = "again ? (chunks <= 1024 || (form == 2 && chunks <= 2048) ? 2 : 4) : by_chunks == 0 || chunks <= (direct ? 8 : 32) ? 1 : chunks <= 64 ? min(2, most_chunks) : most_chunks"
[[value]]
name = "wanted_lanes"
expression = "ceil_div(chunks, per_thread)"
[[value]]
name = "lanes"
expression = "by_chunks == 0 || again || wanted_lanes > 32 ? 0 : wanted_lanes > 16 ? 32 : wanted_lanes > 8 ? 16 : wanted_lanes > 4 ? 8 : wanted_lanes > 2 ? 4 : wanted_lanes > 1 ? 2 : 1"
[[value]]
name = "blocks"
expression = "by_chunks == 0 || direct || again || chunks <= 512 * most_chunks ? 1 : chunks <= 1024 * most_chunks ? 2 : chunks <= 2048 * most_chunks ? 4 : 8"
[[value]]
name = "slice"
expression = "ceil_div(chunks, blocks)"
[[value]]
name = "threads"
expression = "by_chunks == 0 || lanes > 0 ? 256 : max(64, round_up(ceil_div(slice, per_thread), 32))"
[[value]]
name = "most_threads"
expression = "by_chunks == 0 ? 256 : threads > 512 ? 1024 : 512"
# Direct: rows of a team at once, and of a block.
[[value]]
name = "side"
expression = "direct && lanes > 0 ? max(1, floor_div(2, per_thread)) : 1"
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
expression = "lanes == 0 ? 1 : pass_rows * max(1, min(floor_div(ring, 64 * inputs * chunks * pass_rows), ceil_div(rows, 2048 * pass_rows)))"
[[value]]
name = "stages"
expression = "max(2, min(8, floor_div(ring, 16 * max(1, slice) * stage_rows * inputs)))"
[[needs]]
expression = "DIRECT != 3 || again"
reason = "read again: rows of 2 KiB to 64 KiB that start on 16 bytes"
[[needs]]
expression = "DIRECT != 1 || direct"
reason = "direct: rows that start on 16 bytes, and that the threads of a block hold"
[[needs]]
expression = "direct == 0 || per_thread <= 2 || most_threads <= 512"
reason = "direct: a thread has registers for four chunks, or eight of half as many threads"
[[needs]]
expression = "by_chunks == 0 || direct || again || resident * (3072 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1)) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[kernel]]
symbol = "ridge_softmax_backward"
grid = ["again ? rows : direct ? ceil_div(rows, turn_rows) : by_chunks == 0 ? min(rows, 4 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : blocks * min(rows, floor_div(resident * sm_count, blocks))"]
block = ["threads"]
persistent = 1
cluster = ["blocks"]
shared = "by_chunks && direct == 0 && again == 0 ? 2048 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1) : 0"
args = [{ struct = [
  { operand = "dy" }, { operand = "y", when = "form != 2" }, { operand = "x", when = "form == 2" },
  { operand = "lse", when = "form == 2" }, { operand = "dx" },
  { i64 = "dy_stride0 * in_bytes", when = "form != 2" }, { i64 = "y_stride0 * in_bytes", when = "form != 2" },
  { i64 = "x_stride0 * in_bytes", when = "form == 2" }, { i64 = "dx_stride0 * dx_bytes" },
  { i64 = "rows" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "stages" }, { u32 = "stage_rows" },
  { i64 = "cols" }, { f32 = "scale" }, { u32 = "12816" },
] }]
*/
// clang-format on

#include "../../../device/cuda/kernel/row_direct.cuh"
#include "../../../device/cuda/kernel/row_loop.cuh"
#include "../cuda_rows.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes. Null: of another form.
struct SoftmaxBackwardParameters {
  const u8 *dy, *y, *x;
  const float* lse;
  u8* dx;
  i64 dy_pitch, y_pitch, x_pitch, dx_pitch;
  RowGeometry geometry;
  i64 cols;
  float scale;
  u32 order;  // kInOrder
};

namespace {

enum class Form { kSoftmax, kLogSoftmax, kLogSumExp };

constexpr Form kForm = Form::RIDGE_FORM;
constexpr bool kSums = kForm == Form::kLogSumExp;
constexpr Number kTypeX = Number::RIDGE_TYPE_X, kTypeIn = kSums ? kTypeX : Number::RIDGE_TYPE_Y;
constexpr bool kCluster = RIDGE_CLUSTER != 0;
constexpr u32 kLanes = RIDGE_LANES, kPerThread = RIDGE_PER_THREAD, kSide = RIDGE_SIDE, kInputs = kSums ? 1 : 2;

using ChunkIn = Chunk<kTypeIn>;
constexpr u32 kCount = ChunkIn::kCount;  // elements of a chunk that is read
using Results = Numbers<kTypeX, kCount>;

// What is the same for a row: of softmax the sum of dy y, of log_softmax that of dy; of logsumexp the gradient of its
// sum times the scale, and the sum.
struct Row {
  float sum = 0.0f, scale, lse = 0.0f, z_scale = 0.0f;

  __device__ __forceinline__ explicit Row(const SoftmaxBackwardParameters& p) : scale(p.scale) {}
  __device__ __forceinline__ void read(const SoftmaxBackwardParameters& p, i64 row) {
    if constexpr (kSums) {
      z_scale = p.scale;
      scale = p.scale * reinterpret_cast<const float*>(p.dy)[row];
      lse = p.lse[row];
    }
  }
  // `first` of dy and `second` of y, or `first` of x.
  __device__ __forceinline__ static float term(float first, float second) {
    return kForm == Form::kSoftmax ? first * second : first;
  }
  __device__ __forceinline__ float operator()(float first, float second) const {
    if constexpr (kForm == Form::kSoftmax) return scale * (second * (first - sum));
    if constexpr (kForm == Form::kLogSoftmax) return scale * (first - expf(second) * sum);
    return scale * expf(z_scale * first - lse);
  }
};

__device__ __forceinline__ const u8* input(const SoftmaxBackwardParameters& p, u32 index, i64 row) {
  if constexpr (kSums) return p.x + row * p.x_pitch;
  return index == 0 ? p.dy + row * p.dy_pitch : p.y + row * p.y_pitch;
}

// What a thread has of a row.
struct Part {
  ChunkIn words[kInputs][kPerThread];

  // Of a block's row. kAgain: it will be read again.
  template <bool kAgain>
  __device__ __forceinline__ void read(const SoftmaxBackwardParameters& p, const RowTeam<0, 1>& team, i64 index) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
      for (u32 i = 0; i < kInputs; ++i) {
        words[i][k].clear();
        if (team.chunk(k) >= team.chunks()) continue;
        words[i][k].template load_hinted<kAgain>(input(p, i, index) + static_cast<u64>(team.chunk(k)) * 16);
      }
    }
  }
  template <class Place>
  __device__ __forceinline__ float sum(const Place& place) const {
    float sums[4] = {};  // side by side: an addition waits for the one before
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) sums[i % 4] += Row::term(words[0][k][i], words[kInputs - 1][k][i]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  // To the results of a row that begin with the block's first chunk.
  template <class Place>
  __device__ __forceinline__ void write(const Place& place, const Row& row, u32 order, u8* to) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (place.chunk(k) >= place.chunks()) continue;
#pragma unroll
      for (u32 input = 0; input < kInputs; ++input) words[input][k].stay_packed(order);
      float dx[kCount];
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) dx[i] = row(words[0][k][i], words[kInputs - 1][k][i]);
      Results results;
      results.set(dx);
      results.store_global(to + static_cast<u64>(place.chunk(k)) * kCount * Results::kBytes);
    }
  }
};

__device__ __forceinline__ void by_chunks(const SoftmaxBackwardParameters& p, u8* memory) {
  RowShared& shared = *reinterpret_cast<RowShared*>(memory);
  prepare_rows<kCluster>(shared);
  RowInput inputs[kInputs];
  inputs[0] = {input(p, 0, 0), kSums ? p.x_pitch : p.dy_pitch};
  if constexpr (!kSums) inputs[1] = {p.y, p.y_pitch};
  RowLoop<kInputs, kLanes, kCluster> loop(p.geometry, inputs, shared);
  RowSum<1, kLanes, kCluster> sum(shared);
  for (; loop.more(); loop.advance()) {
    loop.wait();
    for (u32 pass = 0; pass < loop.passes(); ++pass) {
      const i64 index = loop.row(pass);
      const bool there = index < p.geometry.rows;
      Row row(p);
      if (there) row.read(p, index);
      Part part;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
        for (u32 i = 0; i < kInputs; ++i) {
          part.words[i][k].clear();
          if (loop.chunk(k) < loop.chunks() && there)
            part.words[i][k].load_shared(loop.address(i, pass, loop.chunk(k)));
        }
      }
      if constexpr (!kSums) {
        float total[1] = {part.sum(loop)};
        sum(total);
        row.sum = total[0];
      }
      if (pass + 1 == loop.passes()) loop.release(!kSums);
      u8* const to = p.dx + index * p.dx_pitch + static_cast<u64>(loop.first_chunk()) * kCount * Results::kBytes;
      if (there) part.write(loop, row, p.order, to);
    }
  }
  leave_rows<kCluster>();
}

// A block takes a row, or teams of its threads some rows, in registers from memory to the results.
__device__ __forceinline__ void direct(const SoftmaxBackwardParameters& p) {
  using Team = RowTeam<kLanes, kSide>;
  using Sum = TeamSum<kLanes, kSide>;
  __shared__ typename Sum::Shared shared;
  Sum sum(shared);
  const Team team(p.geometry.chunks);
  const i64 first = static_cast<i64>(blockIdx.x) * Team::block_rows();
  Part parts[kSide];
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const i64 row = Team::row(first, s);
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
      for (u32 i = 0; i < kInputs; ++i) {
        parts[s].words[i][k].clear();
        if (row >= p.geometry.rows || Team::chunk(k) >= team.chunks()) continue;
        parts[s].words[i][k].load_global(input(p, i, row) + static_cast<u64>(Team::chunk(k)) * 16);
      }
    }
  }
  float sums[kSide] = {};
  if constexpr (!kSums) {
#pragma unroll
    for (u32 s = 0; s < kSide; ++s) sums[s] = parts[s].sum(team);
    sum(sums);
  }
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const i64 index = Team::row(first, s);
    if (index >= p.geometry.rows) continue;
    Row row(p);
    row.read(p, index);
    row.sum = sums[s];
    parts[s].write(team, row, p.order, p.dx + index * p.dx_pitch);
  }
}

// A block takes a row, and reads it again from the first-level cache for its results: threads hold nothing of it while
// they wait for the sum. logsumexp has none, and reads once.
__device__ __forceinline__ void by_reading_again(const SoftmaxBackwardParameters& p) {
  using Sum = TeamSum<0, 1>;
  __shared__ typename Sum::Shared shared;
  Sum sum(shared);
  const RowTeam<0, 1> team(p.geometry.chunks);
  const i64 index = blockIdx.x;
  Row row(p);
  row.read(p, index);
  Part part;
  if constexpr (!kSums) {
    part.read<true>(p, team, index);
    float total[1] = {part.sum(team)};
    sum(total);
    row.sum = total[0];
  }
  part.read<false>(p, team, index);
  part.write(team, row, p.order, p.dx + index * p.dx_pitch);
}

// A block takes a row of any number of elements at any address; the second read comes from a cache as far as that has
// room.
__device__ __forceinline__ void by_passes(const SoftmaxBackwardParameters& p) {
  constexpr u32 kAhead = 2;  // chunks of an input that a thread loads at once
  __shared__ RowShared shared;
  prepare_rows<false>(shared);
  RowSum<1, 0, false> sum(shared);
  for (i64 index = blockIdx.x; index < p.geometry.rows; index += gridDim.x) {
    const u8 *const dy = input(p, 0, index), *const y = input(p, 1, index);
    u8* const to = p.dx + index * p.dx_pitch;
    const Span<kCount, ChunkIn::kBytes, Results::kBytes> span(dy, y, to, p.cols);
    const i64 step = kAhead * static_cast<i64>(blockDim.x);
    const auto load = [&](ChunkIn(&chunks)[kInputs][kAhead], i64 first) {
#pragma unroll
      for (u32 j = 0; j < kAhead; ++j) {
        const i64 c = first + j * static_cast<i64>(blockDim.x);
#pragma unroll
        for (u32 i = 0; i < kInputs; ++i) {
          chunks[i][j].clear();
          if (c < span.chunks) chunks[i][j].load_global((i == 0 ? dy : y) + span.chunk_at(c) * ChunkIn::kBytes);
        }
      }
    };
    Row row(p);
    row.read(p, index);
    if constexpr (!kSums) {
      float total[1] = {0.0f};
      for (i64 first = threadIdx.x; first < span.chunks; first += step) {
        ChunkIn chunks[kInputs][kAhead];
        load(chunks, first);
#pragma unroll
        for (u32 j = 0; j < kAhead; ++j) {
#pragma unroll
          for (u32 i = 0; i < kCount; ++i) total[0] += Row::term(chunks[0][j][i], chunks[kInputs - 1][j][i]);
        }
      }
      for (i64 i = threadIdx.x; i < span.ones(); i += blockDim.x) {
        const i64 at = span.one(i);
        total[0] += Row::term(load_number<kTypeIn>(dy, at), load_number<kTypeIn>(y, at));
      }
      sum(total);
      row.sum = total[0];
    }
    for (i64 first = threadIdx.x; first < span.chunks; first += step) {
      ChunkIn chunks[kInputs][kAhead];
      load(chunks, first);
#pragma unroll
      for (u32 j = 0; j < kAhead; ++j) {
        const i64 c = first + j * static_cast<i64>(blockDim.x);
        if (c >= span.chunks) continue;
        float dx[kCount];
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) dx[i] = row(chunks[0][j][i], chunks[kInputs - 1][j][i]);
        Results results;
        results.set(dx);
        results.store_global(to + span.chunk_at(c) * Results::kBytes);
      }
    }
    for (i64 i = threadIdx.x; i < span.ones(); i += blockDim.x) {
      const i64 at = span.one(i);
      store_number<kTypeX>(to, at, row(load_number<kTypeIn>(dy, at), load_number<kTypeIn>(y, at)));
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_softmax_backward(const ridge::cuda::SoftmaxBackwardParameters p) {
  using namespace ridge::cuda;
  if constexpr (RIDGE_VECTORS != 0 && RIDGE_DIRECT == 1) {
    direct(p);
  } else if constexpr (RIDGE_VECTORS != 0 && RIDGE_DIRECT == 2) {
    by_reading_again(p);
  } else if constexpr (RIDGE_VECTORS != 0) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_passes(p);
  }
}
