// A warp takes a row of dy and up to eight of its sources: of every chunk of dy the chunks of all sources are in flight
// at once, and each has a sum of its own in every lane, which meet at the end. Rows with more sources are read again
// for the next eight, from a cache as far as that has room. Bound by memory. Rows that do not start on 16 bytes, or are
// no multiple of them long, go by elements, which is a few times slower.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "THREADS"
values = [64, 128, 256]
default = 128
category = "resource"
title = "threads of a block"
[[tunable]]
name = "SIDE"
values = [2, 4, 8]
default = 8
category = "tile"
title = "sources that a warp multiplies side by side, where a row has so many"
*/
/* ridge-kernel
op = "combine_rows_backward"
max_registers = 128
sass = [{ opcode = "LDG" }, { opcode = "SHFL" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_INDEX = { value = "index", names = ["int", "long long"] }
RIDGE_VECTORS = { value = "vectors" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "THREADS" }
[configs]
default = { }
side4 = { SIDE = 4 }
small_blocks = { THREADS = 64 }
large_blocks = { THREADS = 256 }
[variants]
bf16_8 = { case = "combine_rows_backward rows=16384 sources=131072 cols=7168 top=8", every = true }
bf16_2 = { case = "combine_rows_backward rows=16384 sources=32768 cols=4096 top=2" }
bf16_1_i64 = { case = "combine_rows_backward rows=16384 sources=32768 cols=4096 top=1 index=i64" }
f16_8 = { case = "combine_rows_backward rows=16384 sources=131072 cols=2048 top=8 dtype=f16" }
f32_8 = { case = "combine_rows_backward rows=16384 sources=131072 cols=2048 top=8 dtype=f32" }
bf16_odd = { case = "combine_rows_backward rows=16384 sources=131072 cols=2049 top=8" }
*/
/* ridge-launch
[[value]]
name = "side"
expression = "top >= 8 ? SIDE : top >= 4 ? min(SIDE, 4) : top >= 2 ? 2 : 1"
[[value]]
name = "turns"
expression = "ceil_div(top, side)"
[[needs]]
expression = "rows * turns <= 2147483647"
reason = "a grid has at most 2147483647 blocks"
[[kernel]]
symbol = "ridge_combine_rows_backward"
grid = ["ceil_div(32 * rows * turns, THREADS)"]
block = ["THREADS"]
args = [{ struct = [
  { operand = "x" }, { operand = "from" }, { operand = "dy" }, { operand = "dweights" },
  { i64 = "x_stride0 * x_bytes" }, { i64 = "from_stride0" }, { i64 = "dy_stride0 * x_bytes" }, { i64 = "dweights_stride0" },
  { i64 = "sources" }, { i64 = "rows" }, { i64 = "cols" },
  { u32 = "top" }, { u32 = "turns" },
] }]
*/
// clang-format on

#include "../../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes, strides in elements.
struct CombineBackwardParameters {
  const u8* x;
  const void* from;
  const u8* dy;
  float* dweights;
  i64 x_pitch, from_stride, dy_pitch, dweights_stride, sources, rows, cols;
  u32 top, turns;
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr u32 kSide = RIDGE_SIDE;

using ChunkX = Chunk<kType>;
constexpr u32 kCount = ChunkX::kCount;
using Index = RIDGE_INDEX;

// Of this lane's chunks, or elements, of dy and of each source.
__device__ __forceinline__ void add_up(const CombineBackwardParameters& p, const u8* dy,
                                       const u8* const (&sources)[kSide], u32 lane, float (&sums)[kSide]) {
  if constexpr (RIDGE_VECTORS != 0) {
    const i64 chunks = p.cols / kCount;
    for (i64 c = lane; c < chunks; c += kWarpThreads) {
      ChunkX of_dy, words[kSide];
      of_dy.load_global(dy + c * 16);
#pragma unroll
      for (u32 k = 0; k < kSide; ++k) {
        words[k].clear();
        if (sources[k] != nullptr) words[k].load_global(sources[k] + c * 16);
      }
#pragma unroll
      for (u32 k = 0; k < kSide; ++k) {
        if (sources[k] == nullptr) continue;
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) sums[k] += of_dy[i] * words[k][i];
      }
    }
  } else {
    for (i64 j = lane; j < p.cols; j += kWarpThreads) {
      const float of_dy = load_number<kType>(dy, j);
#pragma unroll
      for (u32 k = 0; k < kSide; ++k) {
        if (sources[k] != nullptr) sums[k] += of_dy * load_number<kType>(sources[k], j);
      }
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
    ridge_combine_rows_backward(const ridge::cuda::CombineBackwardParameters p) {
  using namespace ridge::cuda;
  const i64 unit = static_cast<i64>(blockIdx.x) * (blockDim.x / kWarpThreads) + threadIdx.x / kWarpThreads;
  const i64 row = unit / p.turns;
  const u32 first = static_cast<u32>(unit - row * p.turns) * kSide, lane = threadIdx.x % kWarpThreads;
  if (row >= p.rows) return;
  const u8* sources[kSide];
  float sums[kSide];
#pragma unroll
  for (u32 k = 0; k < kSide; ++k) {
    sources[k] = nullptr, sums[k] = 0.0f;
    if (first + k >= p.top) continue;
    const i64 source = static_cast<const Index*>(p.from)[row * p.from_stride + first + k];
    if (static_cast<u64>(source) < static_cast<u64>(p.sources)) sources[k] = p.x + source * p.x_pitch;
  }
  add_up(p, p.dy + row * p.dy_pitch, sources, lane, sums);
#pragma unroll
  for (u32 k = 0; k < kSide; ++k) {
#pragma unroll
    for (u32 mask = kWarpThreads / 2; mask > 0; mask /= 2) {
      sums[k] += __shfl_xor_sync(~0u, sums[k], static_cast<int>(mask));
    }
    if (lane == k && first + k < p.top) p.dweights[row * p.dweights_stride + first + k] = sums[k];
  }
}
