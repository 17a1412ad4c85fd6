// Turns 16 x 16 values of 32 bits around, in AVX-512; for files that are compiled with those instructions alone.
#pragma once

#include <immintrin.h>

namespace ridge::ops::matmul::simd {
namespace {

// Four rounds of interleaving: pairs, quads, then 128-bit lanes across quarters and halves.
inline void transpose_16(__m512 (&r)[16]) {
  __m512 u[16], v[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    u[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    u[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[4 * i] = _mm512_shuffle_ps(u[4 * i], u[4 * i + 2], 0x44);
    v[4 * i + 1] = _mm512_shuffle_ps(u[4 * i], u[4 * i + 2], 0xee);
    v[4 * i + 2] = _mm512_shuffle_ps(u[4 * i + 1], u[4 * i + 3], 0x44);
    v[4 * i + 3] = _mm512_shuffle_ps(u[4 * i + 1], u[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    u[i] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0x88);
    u[i + 4] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0xdd);
    u[i + 8] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x88);
    u[i + 12] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(u[i], u[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(u[i], u[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(u[i + 4], u[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(u[i + 4], u[i + 12], 0xdd);
  }
}

}  // namespace
}  // namespace ridge::ops::matmul::simd
