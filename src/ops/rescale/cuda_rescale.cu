// Blocks stay and take pieces of rows in turns, so that a factor of 1 costs a launch and one read. All chunks of a
// piece are in flight before the first is stored. Rows that do not start on 16 bytes, or are no multiple of them long,
// go by elements. Bound by memory.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "CHUNKS"
values = [2, 4, 8]
default = 4
category = "tile"
title = "chunks of 16 bytes that a thread takes at once"
*/
/* ridge-kernel
op = "rescale"
max_registers = 64
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_PER_ROW = { value = "per_row" }
RIDGE_VECTORS = { value = "vectors" }
RIDGE_CHUNKS = { value = "CHUNKS" }
[configs]
default = { }
two_chunks = { CHUNKS = 2 }
eight_chunks = { CHUNKS = 8 }
[variants]
bf16 = { case = "rescale rows=8192 cols=128256", every = true }
f32_per_row = { case = "rescale rows=8192 cols=4096 dtype=f32 per_row=1" }
f16_odd = { case = "rescale rows=8192 cols=4097 dtype=f16 per_row=1" }
*/
/* ridge-launch
[[value]]
name = "piece"
expression = "256 * CHUNKS * floor_div(16, x_bytes)"
[[value]]
name = "pieces"
expression = "ceil_div(cols, piece)"
[[kernel]]
symbol = "ridge_rescale"
grid = ["min(rows * pieces, 8 * sm_count)"]
block = [256]
args = [{ struct = [
  { operand = "factor" }, { operand = "x" }, { i64 = "x_stride0" }, { i64 = "rows" }, { i64 = "cols" }, { i64 = "pieces" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

// As the launch plan fills it; the stride in elements.
struct RescaleParameters {
  const float* factor;
  u8* x;
  i64 stride, rows, cols, pieces;
};

namespace {

using Words = Chunk<Number::RIDGE_TYPE_X>;
constexpr u32 kThreads = 256, kChunks = RIDGE_CHUNKS, kCount = Words::kCount;

__device__ __forceinline__ void by_chunks(u8* row, i64 first, i64 cols, float factor) {
  Words chunks[kChunks];
  const i64 begin = first + threadIdx.x * kCount;
#pragma unroll
  for (u32 k = 0; k < kChunks; ++k) {
    const i64 at = begin + k * (kThreads * kCount);
    if (at < cols) chunks[k].load_own(row + at * Words::kBytes);
  }
#pragma unroll
  for (u32 k = 0; k < kChunks; ++k) {
    const i64 at = begin + k * (kThreads * kCount);
    if (at >= cols) break;
    float values[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) values[i] = chunks[k][i] * factor;
    chunks[k].set(values);
    chunks[k].store_global(row + at * Words::kBytes);
  }
}

__device__ __forceinline__ void by_elements(u8* row, i64 first, i64 cols, float factor) {
  constexpr Number kType = Number::RIDGE_TYPE_X;
  const i64 end = min(cols, first + static_cast<i64>(kThreads) * kChunks * kCount);
  for (i64 at = first + threadIdx.x; at < end; at += kThreads) {
    store_number<kType>(row, at, load_number<kType>(row, at) * factor);
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256) ridge_rescale(const ridge::cuda::RescaleParameters p) {
  using namespace ridge::cuda;
  const i64 units = p.rows * p.pieces;
  float factor = RIDGE_PER_ROW ? 1.0f : *p.factor;
  if (!RIDGE_PER_ROW && factor == 1.0f) return;
  for (i64 unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const i64 index = unit / p.pieces, first = (unit - index * p.pieces) * (kThreads * kChunks * kCount);
    if (RIDGE_PER_ROW) factor = p.factor[index];
    if (factor == 1.0f) continue;
    u8* const row = p.x + index * p.stride * Words::kBytes;
    if constexpr (RIDGE_VECTORS != 0) {
      by_chunks(row, first, p.cols, factor);
    } else {
      by_elements(row, first, p.cols, factor);
    }
  }
}
