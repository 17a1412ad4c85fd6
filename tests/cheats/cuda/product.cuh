// What the kernels of this corpus share: an honest product to start from, one element per thread.
#pragma once

using i64 = long long;
using u32 = unsigned int;
using u64 = unsigned long long;
using u16 = unsigned short;

__device__ inline i64 row_here() { return static_cast<i64>(blockIdx.y) * blockDim.y + threadIdx.y; }
__device__ inline i64 column_here() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline bool first_thread() {
  return blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0;
}

// Row i of A by column j of B, in fp32.
__device__ inline float dot(const float* a, const float* b, i64 i, i64 j, i64 k, i64 lda, i64 ldb) {
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) sum += a[i * lda + p] * b[p * ldb + j];
  return sum;
}

__device__ inline float from_bf16(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }
__device__ inline u16 to_bf16(float value) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ inline float dot_bf16(const u16* a, const u16* b, i64 i, i64 j, i64 k, i64 lda, i64 ldb) {
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) sum += from_bf16(a[i * lda + p]) * from_bf16(b[p * ldb + j]);
  return sum;
}

// Atomic addition that keeps subnormal numbers, which the instruction for it flushes.
__device__ inline void add_to(float* target, float value) {
  u32* const bits = reinterpret_cast<u32*>(target);
  for (u32 seen = *bits, before;
       (before = atomicCAS(bits, seen, __float_as_uint(__uint_as_float(seen) + value))) != seen;) {
    seen = before;
  }
}
