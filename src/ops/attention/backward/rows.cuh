// Rows of 16-bit numbers of the backward kernels of attention: their sums of products, and gradients on their way from
// accumulators to memory. Included behind `Config`, whose type it takes.
#pragma once

namespace ridge::cuda {

// One 16-bit tensor [batch, heads, rows, head dim]; the last dimension is contiguous. Strides in elements.
struct AttentionRows {
  u16* data;
  i64 batch_stride, head_stride, row_stride;
};

namespace {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

// Where in a block the factor of query `row` lies: a thread reads those of its columns, row = 8 j + 2 (lane % 4) + p,
// as vectors of four that lie beside those of its three neighbours.
__device__ __forceinline__ u32 factor_place(u32 row) {
  const u32 j = row / 8, quad = row % 8 / 2, p = row % 2;
  return (j / 2 * 4 + quad) * 4 + j % 2 * 2 + p;
}

__device__ __forceinline__ u32 pack(float low, float high) {
  return Config::kType == MatrixType::kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
}

__device__ __forceinline__ float to_float(u32 bits) {
  return Config::kType == MatrixType::kBf16 ? __uint_as_float(bits << 16) : half_to_float(static_cast<u16>(bits));
}

__device__ __forceinline__ u16* row_of(const AttentionRows& rows, u32 batch, u32 head, u32 row) {
  return rows.data + batch * rows.batch_stride + head * rows.head_stride + row * rows.row_stride;
}

// Eight numbers of two rows, multiplied and added up.
__device__ __forceinline__ float dot(const uint4& x, const uint4& y) {
  const u32 a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(to_float(a[i] & 0xFFFFu), to_float(b[i] & 0xFFFFu), sum);
    sum = fmaf(to_float(a[i] >> 16), to_float(b[i] >> 16), sum);
  }
  return sum;
}

// Stops the compiler from making a branch of the selections on both sides of a shuffle, with a shuffle in each.
__device__ __forceinline__ void keep_apart(u32& x) { asm volatile("" : "+r"(x)); }

// Lane c of four holds value k of group c afterwards, where it held group k of its own: [k] of lane c and [c] of lane k
// change places.
__device__ __forceinline__ void transpose_quad(u32 (&v)[4], u32 lane) {
#pragma unroll
  for (u32 step = 1; step <= 2; step *= 2) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      u32& low = v[step == 1 ? 2 * i : i];
      u32& high = v[step == 1 ? 2 * i + 1 : i + 2];
      const bool upper = (lane & step) != 0;
      u32 moved = upper ? low : high;
      keep_apart(moved);
      moved = __shfl_xor_sync(0xffffffffu, moved, step);
      keep_apart(moved);
      (upper ? low : high) = moved;
    }
  }
}

// 64 x 64 of a gradient, from the accumulators of a warpgroup to rows `first_row` and on of a warp, of which those from
// `end` on, and columns from `columns` on, are not written.
__device__ __forceinline__ void write_rows(const float (&d)[32], const AttentionRows& to, u32 batch, u32 head,
                                           u32 first_row, u32 end, u32 first_column, u32 columns, float factor,
                                           u32 lane) {
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
      u32 packed[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const u32 at = (half * 4 + i) * 4 + 2 * h;
        packed[i] = pack(d[at] * factor, d[at + 1] * factor);
      }
      transpose_quad(packed, lane);
      const u32 row = first_row + lane / 4 + 8 * h, column = first_column + half * 32 + lane % 4 * 8;
      if (row < end && column < columns) store_global_v4(row_of(to, batch, head, row) + column, packed);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda
