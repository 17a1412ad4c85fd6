// Codes times their scales. A thread takes 16 codes of a row: one 16-byte load, one scale (groups along a row are whole
// multiples of 16), and stores of 16 bytes. Bound by memory: codes, scales and results once. Rows that do not start
// on 16 bytes, and the ends of rows, go by elements.

// clang-format off
/* ridge-kernel
op = "dequantize"
max_registers = 64
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_Y = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
[configs]
default = { }
[variants]
vector_e4m3_bf16 = { case = "dequantize scaling=1x128" }
vector_e5m2_f16 = { case = "dequantize scaling=1x128 format=e5m2 dtype=f16" }
vector_e4m3_f32 = { case = "dequantize scaling=1x128 dtype=f32" }
tensor_e4m3_bf16 = { case = "dequantize scaling=tensor" }
row_e4m3_bf16 = { case = "dequantize scaling=row" }
block_e4m3_bf16 = { case = "dequantize scaling=128x128" }
mx_e4m3_bf16 = { case = "dequantize scaling=mx" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "ceil_div(cols, 16)"
[[kernel]]
symbol = "ridge_dequantize"
grid = ["min(ceil_div(rows * chunks, 256), 32 * sm_count)"]
block = [256]
args = [{ struct = [
  { operand = "q" }, { operand = "scale" }, { operand = "y" },
  { i64 = "q_stride0" }, { i64 = "scale_stride0", when = "scaling > 1" }, { i64 = "y_stride0" },
  { i64 = "rows" }, { i64 = "cols" }, { i64 = "chunks" }, { u32 = "min(q_align, y_align) >= 16" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/fp8.cuh"

namespace ridge::cuda {

enum class Element { kF32, kBf16, kF16 };
enum class Granularity { kTensor, kRow, kVector, kBlock, kMx };  // ridge/scaling.h

// As the launch plan fills it; strides in elements.
struct DequantizeParameters {
  const u8* q;
  const void* scale;  // fp32, for MX bytes
  void* y;
  i64 q_stride, scale_stride, y_stride;
  i64 rows, cols, chunks;  // chunks of 16 columns in a row
  u32 aligned;             // all rows start on 16 bytes
};

namespace {

constexpr Element kTypeY = Element::RIDGE_TYPE_Y;
constexpr Fp8 kFormat = Fp8::RIDGE_FORMAT;
constexpr Granularity kGranularity = Granularity::RIDGE_GRANULARITY;
constexpr u32 kChunk = 16;

__device__ __forceinline__ float scale_of(const DequantizeParameters& p, i64 row, i64 col) {
  const float* const scales = static_cast<const float*>(p.scale);
  switch (kGranularity) {
    case Granularity::kTensor: return scales[0];
    case Granularity::kRow: return scales[row];
    case Granularity::kVector: return scales[col / 128 * p.scale_stride + row];
    case Granularity::kBlock: return scales[row / 128 * p.scale_stride + col / 128];
    case Granularity::kMx: return power_of_two(static_cast<const u8*>(p.scale)[col / 32 * p.scale_stride + row]);
  }
  return 0.0f;
}

__device__ __forceinline__ u32 pack(float low, float high) {
  if constexpr (kTypeY == Element::kF16) return pack_f16(low, high);
  return pack_bf16(low, high);
}

__device__ __forceinline__ void store(void* y, i64 at, const float (&values)[kChunk], i64 count, bool whole) {
  if (whole) {
    if constexpr (kTypeY == Element::kF32) {
      float4* const to = reinterpret_cast<float4*>(static_cast<float*>(y) + at);
#pragma unroll
      for (u32 i = 0; i < kChunk / 4; ++i) {
        to[i] = {values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]};
      }
    } else {
      uint4* const to = reinterpret_cast<uint4*>(static_cast<u16*>(y) + at);
#pragma unroll
      for (u32 i = 0; i < kChunk / 8; ++i) {
        const float* const v = values + 8 * i;
        to[i] = {pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7])};
      }
    }
    return;
  }
#pragma unroll
  for (u32 i = 0; i < kChunk; ++i) {
    if (i >= count) break;
    if constexpr (kTypeY == Element::kF32) {
      static_cast<float*>(y)[at + i] = values[i];
    } else {
      static_cast<u16*>(y)[at + i] = static_cast<u16>(pack(values[i], 0.0f));
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256) ridge_dequantize(const ridge::cuda::DequantizeParameters p) {
  using namespace ridge::cuda;
  const i64 total = p.rows * p.chunks, step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 t = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; t < total; t += step) {
    // A 32-bit division costs a quarter of a 64-bit one.
    const i64 row = total <= 0xFFFFFFFFll ? static_cast<u32>(t) / static_cast<u32>(p.chunks) : t / p.chunks;
    const i64 col = (t - row * p.chunks) * kChunk, count = min(p.cols - col, static_cast<i64>(kChunk));
    const bool whole = p.aligned && count == kChunk;
    const u8* const from = p.q + row * p.q_stride + col;
    u32 words[kChunk / 4] = {};
    if (whole) {
      const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from));
      words[0] = raw.x, words[1] = raw.y, words[2] = raw.z, words[3] = raw.w;
    } else {
#pragma unroll
      for (u32 i = 0; i < kChunk; ++i) {
        if (i < count) words[i / 4] |= static_cast<u32>(from[i]) << (i % 4 * 8);
      }
    }
    const float scale = scale_of(p, row, col);
    float values[kChunk];
#pragma unroll
    for (u32 i = 0; i < kChunk; i += 2) {
      decode_pair<kFormat>(static_cast<u16>(words[i / 4] >> (i % 4 * 8)), values[i], values[i + 1]);
      values[i] *= scale;
      values[i + 1] *= scale;
    }
    store(p.y, row * p.y_stride + col, values, count, whole);
  }
}
