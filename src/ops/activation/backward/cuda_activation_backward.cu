// All gradients from one read of dy, x and up, element by element in registers (device/cuda/kernel/row_pieces.cuh):
// each operand once, in chunks of 16 bytes, of which a thread has several in flight before it stores one. Without
// factors and a mask, matrices whose rows follow on each other count as one row. Bound by memory.
// The gradient of a row's factor is a sum over the row: where it is wanted a team goes through a whole row, a block
// through one of more than 4 KiB, and adds up in an order that depends on shapes alone. Loses where rows are few and
// long, as no more than a block works on one.
// Rows that do not start on 16 bytes go in chunks as well where all matrices are off by the same; rows that are off by
// different numbers of bytes go element by element, which is a few times slower.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "THREADS"
values = [128, 256, 512]
default = 256
category = "resource"
title = "threads of a block"
[[tunable]]
name = "CHUNKS"
values = [1, 2, 4]
default = 1
category = "tile"
title = "chunks of 16 bytes that a thread takes of dy, x and up"
*/
/* ridge-kernel
op = "activation_backward"
max_registers = 128
sass = [{ opcode = "LDG" }, { opcode = "STG" }, { opcode = "SHFL", when = "dprobs" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FUNCTION = { value = "function", names = ["kSilu", "kGelu", "kGeluTanh", "kRelu", "kRelu2", "kClampedSilu"] }
RIDGE_GATED = { value = "gated" }
RIDGE_PROBS = { value = "probs" }
RIDGE_MASK = { value = "mask" }
RIDGE_DX = { value = "dx" }
RIDGE_DUP = { value = "dup" }
RIDGE_DPROBS = { value = "dprobs" }
RIDGE_ALIGNED = { value = "vectors" }
RIDGE_SIDE = { value = "CHUNKS" }
RIDGE_THREADS = { value = "THREADS" }
[configs]
default = { }
two_chunks = { CHUNKS = 2 }
four_chunks = { CHUNKS = 4 }
small_blocks = { THREADS = 128 }
small_blocks_two_chunks = { THREADS = 128, CHUNKS = 2 }
large_blocks = { THREADS = 512 }
[variants]
swiglu = { case = "activation_backward rows=8192 cols=14336", every = true }
swiglu_f16 = { case = "activation_backward rows=8192 cols=14336 dtype=f16" }
swiglu_f32 = { case = "activation_backward rows=8192 cols=14336 dtype=f32" }
swiglu_dx = { case = "activation_backward rows=8192 cols=14336 dup=0" }
swiglu_dup = { case = "activation_backward rows=8192 cols=14336 dx=0" }
swiglu_probs = { case = "activation_backward rows=16384 cols=2048 probs=1", every = true }
swiglu_dprobs = { case = "activation_backward rows=16384 cols=2048 probs=1 dx=0 dup=0" }
swiglu_probs_mask = { case = "activation_backward rows=16384 cols=2048 probs=1 mask=1" }
swiglu_odd = { case = "activation_backward rows=8192 cols=2049 probs=1 mask=1" }
swiglu_odd_f32 = { case = "activation_backward rows=8192 cols=2049 probs=1 mask=1 dtype=f32" }
swiglu_odd_plain = { case = "activation_backward rows=8192 cols=2049" }
silu = { case = "activation_backward rows=8192 cols=16384 gated=0" }
gelu = { case = "activation_backward rows=8192 cols=16384 function=gelu gated=0" }
geglu = { case = "activation_backward rows=8192 cols=14336 function=gelu" }
geglu_odd = { case = "activation_backward rows=8192 cols=14337 function=gelu probs=1" }
gelu_tanh = { case = "activation_backward rows=8192 cols=16384 function=gelu_tanh gated=0" }
geglu_tanh = { case = "activation_backward rows=8192 cols=14336 function=gelu_tanh" }
relu = { case = "activation_backward rows=8192 cols=16384 function=relu gated=0" }
reglu = { case = "activation_backward rows=8192 cols=14336 function=relu" }
relu2 = { case = "activation_backward rows=8192 cols=16384 function=relu2 gated=0" }
clamped_silu = { case = "activation_backward rows=8192 cols=2880 function=clamped_silu" }
clamped_silu_f16 = { case = "activation_backward rows=8192 cols=2880 function=clamped_silu dtype=f16 probs=1 mask=1" }
*/
/* ridge-launch
[[value]]
name = "line_rows"
expression = "one_row ? 1 : rows"
[[value]]
name = "line_cols"
expression = "one_row ? rows * cols : cols"
# Threads that a row keeps busy, of which a team is the power of two from there on, or a block.
[[value]]
name = "busy"
expression = "ceil_div(line_cols * x_bytes, 16 * CHUNKS)"
[[value]]
name = "wanted_bits"
expression = "busy > 256 ? 9 : busy > 128 ? 8 : busy > 64 ? 7 : busy > 32 ? 6 : busy > 16 ? 5 : busy > 8 ? 4 : busy > 4 ? 3 : busy > 2 ? 2 : busy > 1 ? 1 : 0"
[[value]]
name = "lane_bits"
expression = "min(wanted_bits, THREADS == 512 ? 9 : THREADS == 256 ? 8 : 7)"
[[value]]
name = "lanes"
expression = "2 ^ lane_bits"
# A sum over a row is one team's.
[[value]]
name = "pieces"
expression = "dprobs ? 1 : ceil_div(line_cols * x_bytes, 16 * CHUNKS * lanes)"
[[value]]
name = "blocks"
expression = "ceil_div(line_rows * lanes, THREADS) * pieces"
# Of the smallest pieces that there are.
[[needs]]
expression = "rows * ceil_div(cols * x_bytes, 2048) <= 2147483647"
reason = "a grid has at most 2147483647 blocks, of 2 KiB of a row"
[[kernel]]
symbol = "ridge_activation_backward"
grid = ["blocks"]
block = ["THREADS"]
args = [{ struct = [
  { operand = "dy" }, { operand = "x" }, { operand = "up", when = "gated" }, { operand = "probs", when = "probs" },
  { operand = "mask", when = "mask" },
  { operand = "dx", when = "dx" }, { operand = "dup", when = "dup" }, { operand = "dprobs", when = "dprobs" },
  { i64 = "dy_stride0 * x_bytes" }, { i64 = "x_stride0 * x_bytes" }, { i64 = "up_stride0 * x_bytes", when = "gated" },
  { i64 = "dx_stride0 * x_bytes", when = "dx" }, { i64 = "dup_stride0 * x_bytes", when = "dup" },
  { i64 = "line_rows" }, { i64 = "line_cols" }, { u32 = "pieces" }, { u32 = "lane_bits" },
  { f32 = "alpha" }, { f32 = "limit" },
] }]
*/
// clang-format on

#include "../../../device/cuda/kernel/row_pieces.cuh"
#include "../../gating/functions.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes.
struct ActivationBackwardParameters {
  const u8 *dy, *x, *up;
  const float* probs;
  const u8* mask;
  u8 *dx, *dup;
  float* dprobs;
  i64 dy_pitch, x_pitch, up_pitch, dx_pitch, dup_pitch;
  RowPieces pieces;
  Limits limits;
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr Function kFunction = Function::RIDGE_FUNCTION;
constexpr bool kGated = RIDGE_GATED != 0, kProbs = RIDGE_PROBS != 0, kMask = RIDGE_MASK != 0;
constexpr bool kDx = RIDGE_DX != 0, kDup = RIDGE_DUP != 0, kDprobs = RIDGE_DPROBS != 0;
constexpr bool kAligned = RIDGE_ALIGNED != 0;
constexpr u32 kSide = RIDGE_SIDE;

using ChunkX = Chunk<kType>;
using Chunks = RowChunks<kType, kAligned>;
constexpr u32 kCount = ChunkX::kCount;

// A row where it lies. One that does not count has gradients of 0, and its inputs are not read.
struct Row {
  bool counts;
  float probs;
  const u8 *dy, *x, *up;
  u8 *dx, *dup;

  __device__ __forceinline__ Row(const ActivationBackwardParameters& p, i64 row)
      : counts(!kMask || p.mask[row] != 0),
        probs(kProbs ? p.probs[row] : 1.0f),
        dy(p.dy + row * p.dy_pitch),
        x(p.x + row * p.x_pitch),
        up(kGated ? p.up + row * p.up_pitch : x),
        dx(kDx ? p.dx + row * p.dx_pitch : nullptr),
        dup(kDup ? p.dup + row * p.dup_pitch : nullptr) {}

  // What is not wanted lies with x, as far as the places of chunks are concerned.
  __device__ __forceinline__ Chunks chunks(i64 cols) const {
    const u8* const all[5] = {dy, x, up, kDx ? dx : x, kDup ? dup : x};
    return Chunks(all, cols);
  }
};

struct Inputs {
  ChunkX dy, x, up;

  __device__ __forceinline__ void load(const Row& row, u64 offset) {
    dy.load_global(row.dy + offset);
    x.load_global(row.x + offset);
    if constexpr (kGated) up.load_global(row.up + offset);
  }
  __device__ __forceinline__ void load(const Row& row, const Chunks& in, u64 first, u64 step) {
    gather(dy, row.dy, in, first, step);
    gather(x, row.x, in, first, step);
    if constexpr (kGated) gather(up, row.up, in, first, step);
  }
};

struct Gradients {
  ChunkX dx, dup;
  float sum;  // of dy f(x) u

  __device__ __forceinline__ Gradients(const Inputs& in, const Row& row, const Limits& limits) {
    dx.clear(), dup.clear();
    sum = 0.0f;
    if (kMask && !row.counts) return;
    float to_x[kCount], to_up[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const Value f = value_of<kFunction>(in.x[i], limits);
      const Value u = kGated ? gate_of<kFunction>(in.up[i], limits) : Value{1.0f, 0.0f};
      const float dy = in.dy[i], scaled = kProbs ? dy * row.probs : dy;
      const float outer = kGated ? scaled * u.f : scaled;
      to_x[i] = outer * f.slope * (kFunction == Function::kRelu2 ? 2.0f : 1.0f);
      to_up[i] = scaled * f.f * u.slope;
      sum += dy * (kGated ? f.f * u.f : f.f);
    }
    if constexpr (kDx) dx.set(to_x);
    if constexpr (kDup) dup.set(to_up);
  }
  __device__ __forceinline__ void store(const Row& row, u64 offset) const {
    if constexpr (kDx) dx.store_global(row.dx + offset);
    if constexpr (kDup) dup.store_global(row.dup + offset);
  }
  __device__ __forceinline__ void store(const Row& row, const Chunks& in, u64 first, u64 step) const {
    if constexpr (kDx) scatter(dx, row.dx, in, first, step);
    if constexpr (kDup) scatter(dup, row.dup, in, first, step);
  }
};

// The chunks of one turn; returns their part of the row's sum. No chunk lies behind the row, also of a `turn` that
// does.
__device__ __forceinline__ float one_turn(const ActivationBackwardParameters& p, const RowPart& part, const Row& row,
                                          const Chunks& chunks, u64 turn) {
  const u64 lead = chunks.lead * ChunkX::kBytes;
  Inputs in[kSide];
#pragma unroll
  for (u32 k = 0; k < kSide; ++k) {
    const u64 c = part.chunk(turn, kSide, k);
    if (row.counts && c < chunks.count) in[k].load(row, lead + c * 16);
  }
  float sum = 0.0f;
#pragma unroll
  for (u32 k = 0; k < kSide; ++k) {
    const u64 c = part.chunk(turn, kSide, k);
    if (c >= chunks.count) continue;
    const Gradients found(in[k], row, p.limits);
    found.store(row, lead + c * 16);
    sum += found.sum;
  }
  return sum;
}

// The elements around the chunks, or all.
__device__ __forceinline__ float by_elements(const ActivationBackwardParameters& p, const RowPart& part, const Row& row,
                                             const Chunks& chunks) {
  const u64 step = static_cast<u64>(p.pieces.pieces) * part.lanes;
  float sum = 0.0f;
  for (u64 first = static_cast<u64>(part.piece) * part.lanes + part.lane; first < chunks.edges;
       first += step * kCount) {
    Inputs in;
    if (row.counts) in.load(row, chunks, first, step);
    const Gradients found(in, row, p.limits);
    found.store(row, chunks, first, step);
    sum += found.sum;
  }
  return sum;
}

// Of a team, by all threads of the block: within warps, then over the team's warps in their order. Thread 0 of the
// team has it.
__device__ __forceinline__ float team_sum(const RowPart& part, float value) {
  __shared__ float warps[RIDGE_THREADS / kWarpThreads];
  for (u32 mask = min(part.lanes, kWarpThreads) / 2; mask > 0; mask /= 2) {
    value += __shfl_xor_sync(~0u, value, static_cast<int>(mask));
  }
  if (part.lanes <= kWarpThreads) return value;
  const u32 warp = threadIdx.x / kWarpThreads;
  if (threadIdx.x % kWarpThreads == 0) warps[warp] = value;
  __syncthreads();
  if (part.lane != 0) return value;
  float sum = 0.0f;
  for (u32 w = 0; w < part.lanes / kWarpThreads; ++w) sum += warps[warp + w];
  return sum;
}

__device__ __forceinline__ void activation_backward(const ActivationBackwardParameters& p) {
  const RowPart part(p.pieces);
  const bool there = part.row < p.pieces.rows;
  float sum = 0.0f;
  if (there) {
    const Row row(p, part.row);
    const Chunks chunks = row.chunks(p.pieces.cols);
    if constexpr (kDprobs) {
      for (u64 turn = 0; turn * kSide * part.lanes < chunks.count; ++turn) {
        sum += one_turn(p, part, row, chunks, turn);
      }
    } else {
      one_turn(p, part, row, chunks, part.piece);
    }
    if constexpr (!kAligned) sum += by_elements(p, part, row, chunks);
  }
  if constexpr (kDprobs) {
    sum = team_sum(part, sum);
    if (there && part.lane == 0) p.dprobs[part.row] = sum;
  }
}

}  // namespace
}  // namespace ridge::cuda

// The code for elements beside chunks takes more registers than the compiler would leave it.
#if RIDGE_ALIGNED
#define RIDGE_BOUNDS __launch_bounds__(RIDGE_THREADS)
#else
#define RIDGE_BOUNDS __launch_bounds__(RIDGE_THREADS, 512 / RIDGE_THREADS)
#endif

extern "C" __global__ void RIDGE_BOUNDS ridge_activation_backward(const ridge::cuda::ActivationBackwardParameters p) {
  ridge::cuda::activation_backward(p);
}
