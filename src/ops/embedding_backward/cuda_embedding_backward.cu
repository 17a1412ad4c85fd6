// Tokens are sorted by counting, in scratch memory, and every row of dw is then added up in fp32, in the order of its
// tokens, and written once: dy is read once and dw written once, without atomic additions of real numbers.
//
// Four kernels. The first counts the tokens of each row, by which each token gets a place among them; the second gives
// every row that has tokens a run of the list; the third writes the tokens there. Which place a token gets, and which
// run a row, depends on timing, and the fourth kernel is what makes the sums depend on nothing but the tokens: it
// orders the tokens of a row before it adds them up, 32 by a warp's shuffles, some more by ranks among them in shared
// memory, and those of a row that many tokens name by reading all ids once more in their order.
//
// In the fourth, blocks stay and take one row after the other, each its piece of 256 chunks of 16 bytes of dy; a row
// that no token names costs its stores alone. Bound by memory where most rows have few tokens; the sum of a row that
// very many tokens name is bound by the latency of its loads, of which a thread has eight in flight. Rows that do not
// start on 16 bytes, or are no multiple of 16 bytes long, go by elements. A token whose id is no row counts for
// nothing.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "RESIDENT"
values = [2, 3, 4]
default = 3
category = "resource"
title = "blocks of 256 threads of a multiprocessor that add up"
[[tunable]]
name = "SIDE"
values = [4, 8, 16]
default = 8
category = "pipeline"
title = "rows of dy of which a thread has a chunk in flight"
[[constraint]]
expression = "SIDE * RESIDENT <= 32"
reason = "registers for the chunks in flight"
*/
/* ridge-kernel
op = "embedding_backward"
max_registers = 128
sass = [{ opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "out", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WIDE_IDS = { value = "index == 0" }
RIDGE_ACCUMULATE = { value = "accumulate" }
RIDGE_VECTORS = { value = "vectors" }
[configs]
default = { }
side4 = { SIDE = 4, RESIDENT = 4, promoted = "embedding_backward_cuda_nvidia-h100-80gb-hbm3_20261126, 1.12x" }
side16 = { SIDE = 16, RESIDENT = 2 }
[variants]
bf16_4096 = { case = "embedding_backward tokens=8192 vocabulary=128256 cols=4096", every = true }
bf16_4096_i32 = { case = "embedding_backward tokens=8192 vocabulary=128256 cols=4096 index=i32" }
bf16_4096_f32 = { case = "embedding_backward tokens=8192 vocabulary=128256 cols=4096 out=f32" }
bf16_4096_accumulate = { case = "embedding_backward tokens=8192 vocabulary=128256 cols=4096 accumulate=1", every = true }
bf16_odd = { case = "embedding_backward tokens=8192 vocabulary=32000 cols=1001" }
bf16_odd_accumulate = { case = "embedding_backward tokens=8192 vocabulary=32000 cols=1001 accumulate=1" }
f16_4096 = { case = "embedding_backward tokens=8192 vocabulary=32000 cols=4096 dtype=f16" }
f32_4096 = { case = "embedding_backward tokens=8192 vocabulary=32000 cols=4096 dtype=f32" }
f32_odd = { case = "embedding_backward tokens=8192 vocabulary=32000 cols=1001 dtype=f32" }
*/
/* ridge-launch
[[value]]
name = "in_bytes"
expression = "dtype == 0 ? 4 : 2"
# Columns of a piece: 256 chunks of 16 bytes of dy.
[[value]]
name = "pieces"
expression = "ceil_div(cols * in_bytes, 4096)"
[[needs]]
expression = "tokens <= 2147483392 && vocabulary <= 2147483392"
reason = "tokens and rows are counted in 31 bits"
[[workspace]]
name = "counts"
bytes = "4 * (vocabulary + 1)"
zero = true
[[workspace]]
name = "starts"
bytes = "4 * vocabulary"
[[workspace]]
name = "places"
bytes = "4 * tokens"
[[workspace]]
name = "list"
bytes = "4 * tokens"
[[struct]]
name = "parameters"
members = [
  { operand = "dy" }, { operand = "ids" }, { operand = "dw" },
  { workspace = "counts" }, { workspace = "starts" }, { workspace = "places" }, { workspace = "list" },
  { i64 = "dy_stride0 * dy_bytes" }, { i64 = "dw_stride0 * dw_bytes" }, { i64 = "cols" },
  { u32 = "tokens" }, { u32 = "vocabulary" },
  { f64 = "padding_idx" },
]
[[kernel]]
symbol = "ridge_embedding_count"
grid = ["max(1, ceil_div(tokens, 256))"]
block = [256]
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_embedding_runs"
grid = ["ceil_div(vocabulary, 256)"]
block = [256]
overlap_previous = true
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_embedding_list"
grid = ["max(1, ceil_div(tokens, 256))"]
block = [256]
overlap_previous = true
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_embedding_sum"
grid = ["min(vocabulary, max(1, floor_div(RESIDENT * sm_count, pieces)))", "pieces"]
block = [256]
overlap_previous = true
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes.
struct EmbeddingBackwardParameters {
  const u8* dy;
  const void* ids;
  u8* dw;
  u32* counts;  // tokens of each row, and behind them of all rows
  u32* starts;  // of each row that has tokens, in the list
  u32* places;  // of each token among those of its row
  u32* list;    // tokens, those of a row together
  i64 dy_pitch, dw_pitch, cols;
  u32 tokens, vocabulary;
  double padding;
};

namespace {

constexpr Number kTypeX = Number::RIDGE_TYPE_X, kTypeW = Number::RIDGE_TYPE_W;
constexpr bool kVectors = RIDGE_VECTORS != 0, kAccumulate = RIDGE_ACCUMULATE != 0;
constexpr u32 kThreads = 256, kWarps = kThreads / kWarpThreads, kSide = SIDE;
constexpr u32 kTile = 4 * kThreads;  // tokens that a block orders at once
constexpr u32 kNone = ~0u;

using ChunkX = Chunk<kTypeX>;
constexpr u32 kCount = ChunkX::kCount;  // elements of a thread
using Results = Numbers<kTypeW, kCount>;

// The row of a token; kNone: it counts for nothing.
__device__ __forceinline__ u32 row_of(const EmbeddingBackwardParameters& p, u32 token) {
  i64 id;
  if constexpr (RIDGE_WIDE_IDS != 0) {
    id = static_cast<const i64*>(p.ids)[token];
  } else {
    id = static_cast<const i32*>(p.ids)[token];
  }
  const bool counts = id >= 0 && id < static_cast<i64>(p.vocabulary) && id != static_cast<i64>(p.padding);
  return counts ? static_cast<u32>(id) : kNone;
}

__device__ __forceinline__ void count(const EmbeddingBackwardParameters& p) {
  let_next_grid_start();
  const u32 token = blockIdx.x * kThreads + threadIdx.x;
  if (token >= p.tokens) return;
  const u32 row = row_of(p, token);
  p.places[token] = row == kNone ? kNone : atomicAdd(p.counts + row, 1u);
}

// One addition for the rows of a warp: their runs lie side by side.
__device__ __forceinline__ void give_runs(const EmbeddingBackwardParameters& p) {
  let_next_grid_start();
  wait_for_prior_grid();
  const u32 row = blockIdx.x * kThreads + threadIdx.x, lane = threadIdx.x % kWarpThreads;
  const u32 own = row < p.vocabulary ? p.counts[row] : 0;
  u32 before = own;  // with those of the lanes below
#pragma unroll
  for (u32 step = 1; step < kWarpThreads; step *= 2) {
    const u32 below = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += below;
  }
  u32 start = 0;
  if (lane == kWarpThreads - 1 && before != 0) start = atomicAdd(p.counts + p.vocabulary, before);
  start = __shfl_sync(~0u, start, kWarpThreads - 1);
  if (row < p.vocabulary) p.starts[row] = start + before - own;
}

__device__ __forceinline__ void write_list(const EmbeddingBackwardParameters& p) {
  let_next_grid_start();
  wait_for_prior_grid();
  const u32 token = blockIdx.x * kThreads + threadIdx.x;
  if (token >= p.tokens) return;
  const u32 place = p.places[token];
  if (place != kNone) p.list[p.starts[row_of(p, token)] + place] = token;
}

// The columns of a thread in a piece: a chunk, or elements that are kThreads apart.
struct Columns {
  i64 first, cols;

  __device__ __forceinline__ Columns(const EmbeddingBackwardParameters& p, u32 piece)
      : first(static_cast<i64>(piece) * kThreads * kCount + threadIdx.x * (kVectors ? kCount : 1)), cols(p.cols) {}
  __device__ __forceinline__ bool any() const { return first < cols; }
  __device__ __forceinline__ i64 column(u32 i) const { return first + (kVectors ? i : i * kThreads); }

  __device__ __forceinline__ ChunkX load(const u8* row) const {
    ChunkX chunk;
    if constexpr (kVectors) {
      chunk.load_global(row + first * ChunkX::kBytes);
    } else {
      float values[kCount];
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) values[i] = column(i) < cols ? load_number<kTypeX>(row, column(i)) : 0.0f;
      chunk.set(values);
    }
    return chunk;
  }
  __device__ __forceinline__ void store(u8* row, const float (&sums)[kCount]) const {
    if constexpr (kVectors && kAccumulate) {
      float4* const to = reinterpret_cast<float4*>(row + first * Results::kBytes);
#pragma unroll
      for (u32 i = 0; i < kCount; i += 4) {
        const float4 old = to[i / 4];
        to[i / 4] = make_float4(old.x + sums[i], old.y + sums[i + 1], old.z + sums[i + 2], old.w + sums[i + 3]);
      }
    } else if constexpr (kVectors) {
      Results results;
      results.set(sums);
      results.store_global(row + first * Results::kBytes);
    } else {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        if (column(i) >= cols) continue;
        const float old = kAccumulate ? load_number<kTypeW>(row, column(i)) : 0.0f;
        store_number<kTypeW>(row, column(i), kAccumulate ? old + sums[i] : sums[i]);
      }
    }
  }
};

// Adds the rows of dy of `count` tokens, which lie in their order in shared memory.
__device__ __forceinline__ void add_up(const EmbeddingBackwardParameters& p, const Columns& columns, const u32* tokens,
                                       u32 count, float (&sums)[kCount]) {
  if (!columns.any()) return;
  for (u32 first = 0; first < count; first += kSide) {
    ChunkX chunks[kSide];
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      if (first + i < count) chunks[i] = columns.load(p.dy + static_cast<i64>(tokens[first + i]) * p.dy_pitch);
    }
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      if (first + i >= count) continue;
#pragma unroll
      for (u32 j = 0; j < kCount; ++j) sums[j] += chunks[i][j];
    }
  }
}

struct Shared {
  u32 of_warps[kWarps][kWarpThreads];
  u32 given[kTile], ordered[kTile];
  u32 found[kWarps];
};

// Up to 32 tokens, of which a lane has one, by every warp for itself.
__device__ __forceinline__ void add_few(const EmbeddingBackwardParameters& p, const Columns& columns, Shared& shared,
                                        u32 token, u32 count, float (&sums)[kCount]) {
  const u32 lane = threadIdx.x % kWarpThreads;
  u32* const own = shared.of_warps[threadIdx.x / kWarpThreads];
  u32 rank = 0;
  for (u32 other = 0; other < count; ++other) rank += __shfl_sync(~0u, token, static_cast<int>(other)) < token ? 1 : 0;
  if (lane < count) own[rank] = token;
  __syncwarp();
  add_up(p, columns, own, count, sums);
  __syncwarp();  // before the next row's are written
}

// Up to kTile tokens: each one's rank is how many of them are smaller.
__device__ __forceinline__ void add_some(const EmbeddingBackwardParameters& p, const Columns& columns, Shared& shared,
                                         const u32* run, u32 count, float (&sums)[kCount]) {
  for (u32 i = threadIdx.x; i < count; i += kThreads) shared.given[i] = run[i];
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += kThreads) {
    const u32 token = shared.given[i];
    u32 rank = 0;
    for (u32 other = 0; other < count; ++other) rank += shared.given[other] < token ? 1 : 0;
    shared.ordered[rank] = token;
  }
  __syncthreads();
  add_up(p, columns, shared.ordered, count, sums);
  __syncthreads();
}

// Any number: all ids once more, a tile of tokens after the other, of which a thread has four neighbours.
__device__ __forceinline__ void add_many(const EmbeddingBackwardParameters& p, const Columns& columns, Shared& shared,
                                         u32 row, u32 count, float (&sums)[kCount]) {
  const u32 lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
  for (u32 tile = 0; tile < p.tokens && count > 0; tile += kTile) {
    const u32 first = tile + 4 * threadIdx.x;
    u32 own = 0, mine = 0;  // a bit for each of the four, and how many
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (first + i < p.tokens && row_of(p, first + i) == row) own |= 1u << i, ++mine;
    }
    u32 below = mine;  // with those of the lanes below
#pragma unroll
    for (u32 step = 1; step < kWarpThreads; step *= 2) {
      const u32 other = __shfl_up_sync(~0u, below, step);
      if (lane >= step) below += other;
    }
    if (lane == kWarpThreads - 1) shared.found[warp] = below;
    __syncthreads();
    u32 at = below - mine, all = 0;
#pragma unroll
    for (u32 w = 0; w < kWarps; ++w) {
      if (w < warp) at += shared.found[w];
      all += shared.found[w];
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if ((own >> i & 1u) != 0) shared.ordered[at++] = first + i;
    }
    __syncthreads();
    add_up(p, columns, shared.ordered, all, sums);
    count -= all;
    __syncthreads();
  }
}

// Whether ranks of a row's tokens take less than reading all ids: steps of a thread in both.
__device__ __forceinline__ bool is_ranked(u32 count, u32 tokens) {
  return count <= kTile && (count + kThreads - 1) / kThreads * static_cast<u64>(count) <= 64 + tokens / 32;
}

// What is known of a row: loaded two turns ahead, and its first tokens one turn ahead, so that only the rows of dy are
// waited for.
struct Row {
  u32 count = 0, start = 0, token = kNone;

  __device__ __forceinline__ Row(const EmbeddingBackwardParameters& p, u32 row) {
    if (row >= p.vocabulary) return;
    count = p.counts[row];
    start = p.starts[row];
  }
  __device__ __forceinline__ void load_token(const EmbeddingBackwardParameters& p) {
    const u32 lane = threadIdx.x % kWarpThreads;
    if (lane < count) token = p.list[start + lane];
  }
};

__device__ __forceinline__ void add_rows(const EmbeddingBackwardParameters& p) {
  __shared__ Shared shared;
  wait_for_prior_grid();
  const Columns columns(p, blockIdx.y);
  const u32 step = gridDim.x;
  Row next(p, blockIdx.x), after(p, blockIdx.x + step);
  next.load_token(p);
  for (u32 index = blockIdx.x; index < p.vocabulary; index += step) {
    const Row row = next;
    next = after;
    next.load_token(p);
    after = Row(p, index + 2 * step);
    if (kAccumulate && row.count == 0) continue;
    float sums[kCount] = {};
    if (row.count > kWarpThreads && is_ranked(row.count, p.tokens)) {
      add_some(p, columns, shared, p.list + row.start, row.count, sums);
    } else if (row.count > kWarpThreads) {
      add_many(p, columns, shared, index, row.count, sums);
    } else if (row.count > 0) {
      add_few(p, columns, shared, row.token, row.count, sums);
    }
    if (columns.any()) columns.store(p.dw + static_cast<i64>(index) * p.dw_pitch, sums);
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256)
    ridge_embedding_count(const ridge::cuda::EmbeddingBackwardParameters p) {
  ridge::cuda::count(p);
}
extern "C" __global__ void __launch_bounds__(256)
    ridge_embedding_runs(const ridge::cuda::EmbeddingBackwardParameters p) {
  ridge::cuda::give_runs(p);
}
extern "C" __global__ void __launch_bounds__(256)
    ridge_embedding_list(const ridge::cuda::EmbeddingBackwardParameters p) {
  ridge::cuda::write_list(p);
}
extern "C" __global__ void __launch_bounds__(256, RESIDENT)
    ridge_embedding_sum(const ridge::cuda::EmbeddingBackwardParameters p) {
  ridge::cuda::add_rows(p);
}
