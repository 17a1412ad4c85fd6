// A team of threads takes a row of y, or a piece of it: its chunks of four sources are in flight before the first
// is added, in their order. Blocks come and go (device/cuda/kernel/row_pieces.cuh has the teams). Bound by memory.
// Rows that do not start on 16 bytes, or are no multiple of them long, go by elements, which is a few times slower.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "THREADS"
values = [128, 256, 512]
default = 256
category = "resource"
title = "threads of a block"
[[tunable]]
name = "AHEAD"
values = [2, 4, 8]
default = 4
category = "pipeline"
title = "sources whose chunks a thread has in flight, where a row has so many"
[[tunable]]
name = "CHUNKS"
values = [1, 2, 4]
default = 1
category = "tile"
title = "chunks of 16 bytes of a row that a thread takes; of rows with one source four times, with two twice as many"
*/
/* ridge-kernel
op = "combine_rows"
max_registers = 128
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_INDEX = { value = "index", names = ["int", "long long"] }
RIDGE_WEIGHTS = { value = "weights" }
RIDGE_VECTORS = { value = "vectors" }
RIDGE_AHEAD = { value = "ahead" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "THREADS" }
[configs]
default = { }
ahead8 = { AHEAD = 8 }
two_chunks = { CHUNKS = 2 }
small_blocks_ahead8 = { THREADS = 128, AHEAD = 8 }
small_blocks = { THREADS = 128 }
large_blocks = { THREADS = 512 }
[variants]
bf16_8 = { case = "combine_rows rows=16384 sources=131072 cols=7168 top=8 weights=1", every = true }
bf16_8_plain = { case = "combine_rows rows=16384 sources=131072 cols=7168 top=8" }
bf16_1 = { case = "combine_rows rows=131072 sources=16384 cols=7168 top=1", every = true }
bf16_1_weights = { case = "combine_rows rows=131072 sources=16384 cols=7168 top=1 weights=1" }
bf16_2 = { case = "combine_rows rows=16384 sources=32768 cols=4096 top=2 weights=1" }
bf16_3_i64 = { case = "combine_rows rows=16384 sources=32768 cols=4096 top=3 index=i64" }
f16_8 = { case = "combine_rows rows=16384 sources=131072 cols=2048 top=8 weights=1 dtype=f16" }
f32_8 = { case = "combine_rows rows=16384 sources=131072 cols=2048 top=8 weights=1 dtype=f32" }
bf16_odd = { case = "combine_rows rows=16384 sources=131072 cols=2049 top=8 weights=1" }
f32_odd_1 = { case = "combine_rows rows=16384 sources=131072 cols=2049 top=1 dtype=f32 index=i64" }
*/
/* ridge-launch
[[value]]
name = "ahead"
expression = "top >= 8 ? AHEAD : top >= 4 ? min(AHEAD, 4) : top >= 2 ? 2 : 1"
# Chunks of a thread: of rows with few sources more, so that as many bytes are in flight.
[[value]]
name = "side"
expression = "CHUNKS * (top == 1 ? 4 : top <= 3 ? 2 : 1)"
# Threads that a row keeps busy, of which a team is the power of two from there on, or a block.
[[value]]
name = "busy"
expression = "ceil_div(cols * x_bytes, 16 * side)"
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
expression = "ceil_div(cols * x_bytes, 16 * side * lanes)"
[[needs]]
expression = "rows * ceil_div(cols * x_bytes, 2048) <= 2147483647"
reason = "a grid has at most 2147483647 blocks, of 2 KiB of a row"
[[kernel]]
symbol = "ridge_combine_rows"
grid = ["ceil_div(rows * lanes, THREADS) * pieces"]
block = ["THREADS"]
args = [{ struct = [
  { operand = "x" }, { operand = "from" }, { operand = "weights", when = "weights" }, { operand = "y" },
  { i64 = "x_stride0 * x_bytes" }, { i64 = "from_stride0" }, { i64 = "weights_stride0", when = "weights" },
  { i64 = "y_stride0 * x_bytes" }, { i64 = "sources" },
  { i64 = "rows" }, { i64 = "cols" }, { u32 = "pieces" }, { u32 = "lane_bits" }, { i64 = "top" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/row_pieces.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes, strides in elements.
struct CombineParameters {
  const u8* x;
  const void* from;
  const float* weights;
  u8* y;
  i64 x_pitch, from_stride, weights_stride, y_pitch, sources;
  RowPieces pieces;
  i64 top;
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr bool kWeights = RIDGE_WEIGHTS != 0;
constexpr u32 kAhead = RIDGE_AHEAD, kSide = RIDGE_SIDE;

using ChunkX = Chunk<kType>;
constexpr u32 kCount = ChunkX::kCount;
using Index = RIDGE_INDEX;

// Where the k-th source of a row begins, null for none, and its weight.
struct Source {
  const u8* row;
  float weight;

  __device__ __forceinline__ Source(const CombineParameters& p, i64 row_of_y, u32 k) : row(nullptr), weight(1.0f) {
    if (k >= p.top) return;
    const i64 source = static_cast<const Index*>(p.from)[row_of_y * p.from_stride + k];
    if (static_cast<u64>(source) >= static_cast<u64>(p.sources)) return;
    row = p.x + source * p.x_pitch;
    if constexpr (kWeights) weight = p.weights[row_of_y * p.weights_stride + k];
  }
};

// One source without a weight: the chunks as they are.
__device__ __forceinline__ void copy_chunks(const CombineParameters& p, const RowPart& part, u64 chunks) {
  const Source source(p, part.row, 0);
  u8* const to = p.y + part.row * p.y_pitch;
  ChunkX words[kSide];
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const u64 c = part.chunk(part.piece, kSide, s);
    words[s].clear();
    if (c < chunks && source.row != nullptr) words[s].load_global(source.row + c * 16);
  }
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const u64 c = part.chunk(part.piece, kSide, s);
    if (c < chunks) words[s].store_global(to + c * 16);
  }
}

__device__ __forceinline__ void add_chunks(const CombineParameters& p, const RowPart& part, u64 chunks) {
  float sums[kSide][kCount];
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) sums[s][i] = 0.0f;
  }
  for (u32 first = 0; first < p.top; first += kAhead) {
    ChunkX words[kAhead][kSide];
    float weights[kAhead];
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k) {
      const Source source(p, part.row, first + k);
      weights[k] = source.weight;
#pragma unroll
      for (u32 s = 0; s < kSide; ++s) {
        const u64 c = part.chunk(part.piece, kSide, s);
        words[k][s].clear();
        if (c < chunks && source.row != nullptr) words[k][s].load_global(source.row + c * 16);
      }
      if (source.row == nullptr) weights[k] = 0.0f;  // of a chunk of zeros
    }
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k) {
#pragma unroll
      for (u32 s = 0; s < kSide; ++s) {
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) sums[s][i] += weights[k] * words[k][s][i];
      }
    }
  }
  u8* const to = p.y + part.row * p.y_pitch;
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    const u64 c = part.chunk(part.piece, kSide, s);
    if (c >= chunks) continue;
    ChunkX out;
    out.set(sums[s]);
    out.store_global(to + c * 16);
  }
}

__device__ __forceinline__ void by_elements(const CombineParameters& p, const RowPart& part) {
  u8* const to = p.y + part.row * p.y_pitch;
  const i64 step = static_cast<i64>(p.pieces.pieces) * part.lanes;
  for (i64 j = static_cast<i64>(part.piece) * part.lanes + part.lane; j < p.pieces.cols; j += step) {
    if constexpr (kAhead == 1 && !kWeights) {
      const Source source(p, part.row, 0);
      if constexpr (ChunkX::kBytes == 4) {
        reinterpret_cast<u32*>(to)[j] = source.row == nullptr ? 0 : reinterpret_cast<const u32*>(source.row)[j];
      } else {
        reinterpret_cast<u16*>(to)[j] = source.row == nullptr ? 0 : reinterpret_cast<const u16*>(source.row)[j];
      }
    } else {
      float sum = 0.0f;
      for (u32 k = 0; k < p.top; ++k) {
        const Source source(p, part.row, k);
        if (source.row != nullptr) sum += source.weight * load_number<kType>(source.row, j);
      }
      store_number<kType>(to, j, sum);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS) ridge_combine_rows(const ridge::cuda::CombineParameters p) {
  using namespace ridge::cuda;
  const RowPart part(p.pieces);
  if (part.row >= p.pieces.rows) return;
  if constexpr (RIDGE_VECTORS == 0) {
    by_elements(p, part);
  } else if constexpr (kAhead == 1 && !kWeights) {
    copy_chunks(p, part, static_cast<u64>(p.pieces.cols) / kCount);
  } else {
    add_chunks(p, part, static_cast<u64>(p.pieces.cols) / kCount);
  }
}
