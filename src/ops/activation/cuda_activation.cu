// Every element from memory into registers and back (device/cuda/kernel/row_pieces.cuh): each operand once, in chunks
// of 16 bytes, of which a thread has two in flight before it stores one. Without factors and a mask, matrices whose
// rows follow on each other count as one row. Bound by memory; about 20 instructions an element leave half of the
// issue slots free at 4.3 TB/s.
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
title = "chunks of 16 bytes that a thread takes of x and of up; of x alone twice as many"
*/
/* ridge-kernel
op = "activation"
max_registers = 64
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FUNCTION = { value = "function", names = ["kSilu", "kGelu", "kGeluTanh", "kRelu", "kRelu2", "kClampedSilu"] }
RIDGE_GATED = { value = "gated" }
RIDGE_PROBS = { value = "probs" }
RIDGE_MASK = { value = "mask" }
RIDGE_ALIGNED = { value = "vectors" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "THREADS" }
[configs]
default = { }
two_chunks = { CHUNKS = 2 }
four_chunks = { CHUNKS = 4 }
small_blocks = { THREADS = 128 }
small_blocks_two_chunks = { THREADS = 128, CHUNKS = 2 }
large_blocks = { THREADS = 512 }
[variants]
swiglu = { case = "activation rows=8192 cols=14336", every = true }
swiglu_f16 = { case = "activation rows=8192 cols=14336 dtype=f16" }
swiglu_f32 = { case = "activation rows=8192 cols=14336 dtype=f32" }
swiglu_probs = { case = "activation rows=16384 cols=2048 probs=1" }
swiglu_probs_mask = { case = "activation rows=16384 cols=2048 probs=1 mask=1" }
swiglu_odd = { case = "activation rows=8192 cols=2049 probs=1 mask=1" }
swiglu_odd_f32 = { case = "activation rows=8192 cols=2049 probs=1 mask=1 dtype=f32" }
silu = { case = "activation rows=8192 cols=16384 gated=0" }
gelu = { case = "activation rows=8192 cols=16384 function=gelu gated=0" }
geglu = { case = "activation rows=8192 cols=14336 function=gelu" }
geglu_f32_odd = { case = "activation rows=8192 cols=14337 function=gelu dtype=f32" }
gelu_tanh = { case = "activation rows=8192 cols=16384 function=gelu_tanh gated=0" }
geglu_tanh = { case = "activation rows=8192 cols=14336 function=gelu_tanh" }
relu = { case = "activation rows=8192 cols=16384 function=relu gated=0" }
reglu = { case = "activation rows=8192 cols=14336 function=relu" }
relu2 = { case = "activation rows=8192 cols=16384 function=relu2 gated=0" }
clamped_silu = { case = "activation rows=8192 cols=2880 function=clamped_silu" }
clamped_silu_f16_mask = { case = "activation rows=8192 cols=2880 function=clamped_silu dtype=f16 mask=1" }
*/
/* ridge-launch
# Chunks of a thread, so that as many bytes are in flight with one input as with two.
[[value]]
name = "side"
expression = "gated ? CHUNKS : 2 * CHUNKS"
[[value]]
name = "line_rows"
expression = "one_row ? 1 : rows"
[[value]]
name = "line_cols"
expression = "one_row ? rows * cols : cols"
# Threads that a row keeps busy, of which a team is the power of two from there on, or a block.
[[value]]
name = "busy"
expression = "ceil_div(line_cols * x_bytes, 16 * side)"
[[value]]
name = "wanted_bits"
expression = "busy > 256 ? 9 : busy > 128 ? 8 : busy > 64 ? 7 : busy > 32 ? 6 : busy > 16 ? 5 : busy > 8 ? 4 : busy > 4 ? 3 : busy > 2 ? 2 : busy > 1 ? 1 : 0"
[[value]]
name = "lane_bits"
expression = "min(wanted_bits, THREADS == 512 ? 9 : THREADS == 256 ? 8 : 7)"
[[value]]
name = "lanes"
expression = "2 ^ lane_bits"
[[value]]
name = "pieces"
expression = "ceil_div(line_cols * x_bytes, 16 * side * lanes)"
[[value]]
name = "blocks"
expression = "ceil_div(line_rows * lanes, THREADS) * pieces"
# Of the smallest pieces that there are.
[[needs]]
expression = "rows * ceil_div(cols * x_bytes, 2048) <= 2147483647"
reason = "a grid has at most 2147483647 blocks, of 2 KiB of a row"
[[kernel]]
symbol = "ridge_activation"
grid = ["blocks"]
block = ["THREADS"]
args = [{ struct = [
  { operand = "x" }, { operand = "up", when = "gated" }, { operand = "probs", when = "probs" }, { operand = "mask", when = "mask" },
  { operand = "y" },
  { i64 = "x_stride0 * x_bytes" }, { i64 = "up_stride0 * x_bytes", when = "gated" }, { i64 = "y_stride0 * x_bytes" },
  { i64 = "line_rows" }, { i64 = "line_cols" }, { u32 = "pieces" }, { u32 = "lane_bits" },
  { f32 = "alpha" }, { f32 = "limit" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/row_pieces.cuh"
#include "../gating/functions.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes.
struct ActivationParameters {
  const u8 *x, *up;
  const float* probs;
  const u8* mask;
  u8* y;
  i64 x_pitch, up_pitch, y_pitch;
  RowPieces pieces;
  Limits limits;
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr Function kFunction = Function::RIDGE_FUNCTION;
constexpr bool kGated = RIDGE_GATED != 0, kProbs = RIDGE_PROBS != 0, kMask = RIDGE_MASK != 0;
constexpr bool kAligned = RIDGE_ALIGNED != 0;
constexpr u32 kSide = RIDGE_SIDE;

using ChunkX = Chunk<kType>;
constexpr u32 kCount = ChunkX::kCount;

// What is the same for a row.
struct RowFactors {
  bool counts;  // else its results are 0, and its inputs are not read
  float probs;
};

__device__ __forceinline__ ChunkX activate(const ChunkX& x, const ChunkX& up, const RowFactors& row,
                                           const Limits& limits) {
  ChunkX out;
  out.clear();
  if (kMask && !row.counts) return out;
  float y[kCount];
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) {
    y[i] = value_of<kFunction>(x[i], limits).f;
    if constexpr (kGated) y[i] *= gate_of<kFunction>(up[i], limits).f;
    if constexpr (kProbs) y[i] *= row.probs;
  }
  out.set(y);
  return out;
}

// The elements around the chunks, or all.
__device__ __forceinline__ void by_elements(const ActivationParameters& p, const RowPart& part, const RowFactors& row,
                                            const RowChunks<kType, kAligned>& in, const u8* x, const u8* up, u8* y) {
  const u64 step = static_cast<u64>(p.pieces.pieces) * part.lanes;
  for (u64 first = static_cast<u64>(part.piece) * part.lanes + part.lane; first < in.edges; first += step * kCount) {
    ChunkX a, b;
    a.clear(), b.clear();
    if (row.counts) gather(a, x, in, first, step);
    if (kGated && row.counts) gather(b, up, in, first, step);
    scatter(activate(a, b, row, p.limits), y, in, first, step);
  }
}

__device__ __forceinline__ void activation(const ActivationParameters& p) {
  const RowPart part(p.pieces);
  if (part.row >= p.pieces.rows) return;
  const RowFactors row{!kMask || p.mask[part.row] != 0, kProbs ? p.probs[part.row] : 1.0f};
  const u8* const x = p.x + part.row * p.x_pitch;
  const u8* const up = kGated ? p.up + part.row * p.up_pitch : x;
  u8* const y = p.y + part.row * p.y_pitch;
  const u8* const all[3] = {x, up, y};
  const RowChunks<kType, kAligned> chunks(all, p.pieces.cols);
  const u64 lead = chunks.lead * ChunkX::kBytes;
  ChunkX a[kSide], b[kGated ? kSide : 1];
#pragma unroll
  for (u32 k = 0; k < kSide; ++k) {
    const u64 c = part.chunk(part.piece, kSide, k);
    if (!row.counts || c >= chunks.count) continue;
    a[k].load_global(x + lead + c * 16);
    if constexpr (kGated) b[k].load_global(up + lead + c * 16);
  }
#pragma unroll
  for (u32 k = 0; k < kSide; ++k) {
    const u64 c = part.chunk(part.piece, kSide, k);
    if (c >= chunks.count) continue;
    activate(a[k], b[kGated ? k : 0], row, p.limits).store_global(y + lead + c * 16);
  }
  if constexpr (!kAligned) by_elements(p, part, row, chunks, x, up, y);
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
    ridge_activation(const ridge::cuda::ActivationParameters p) {
  ridge::cuda::activation(p);
}
