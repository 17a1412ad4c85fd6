// What pieces.h declares, for the instruction set of the file that includes this. Blocks of pairs go through arrays of
// their own: y may be x, and a compiler would not make vectors of the loops.
#pragma once

#include "ops/rope/simd/pieces.h"

namespace ridge::ops::rope {
namespace {

constexpr std::int64_t kBlock = 16;

struct Block {
  float a[kBlock], b[kBlock];
};

inline __attribute__((always_inline)) void turn(Block& x, const float* cos, const float* sin, float sign,
                                                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float a = x.a[i], b = x.b[i], s = sign * sin[i];
    x.a[i] = a * cos[i] - b * s;
    x.b[i] = b * cos[i] + a * s;
  }
}

// Where the elements of pair i lie: at i * kStep and `apart` behind it.
template <std::int64_t kStep>
inline __attribute__((always_inline)) void turn_block(const float* x, const float* cos, const float* sin, float sign,
                                                      float* y, std::int64_t apart, std::int64_t count) {
  Block block;
  for (std::int64_t i = 0; i < count; ++i) block.a[i] = x[i * kStep], block.b[i] = x[i * kStep + apart];
  turn(block, cos, sin, sign, count);
  for (std::int64_t i = 0; i < count; ++i) y[i * kStep] = block.a[i], y[i * kStep + apart] = block.b[i];
}
template <std::int64_t kStep>
inline __attribute__((always_inline)) void turn_all(const float* x, const float* cos, const float* sin, float sign,
                                                    float* y, std::int64_t apart, std::int64_t pairs) {
  std::int64_t i = 0;
  for (; i + kBlock <= pairs; i += kBlock) {
    turn_block<kStep>(x + i * kStep, cos + i, sin + i, sign, y + i * kStep, apart, kBlock);
  }
  if (i < pairs) turn_block<kStep>(x + i * kStep, cos + i, sin + i, sign, y + i * kStep, apart, pairs - i);
}

void halves(const float* x, const float* cos, const float* sin, float sign, float* y, std::int64_t pairs) {
  turn_all<1>(x, cos, sin, sign, y, pairs, pairs);
}
void neighbours(const float* x, const float* cos, const float* sin, float sign, float* y, std::int64_t pairs) {
  turn_all<2>(x, cos, sin, sign, y, 1, pairs);
}

constexpr Pieces kPieces = {halves, neighbours};

}  // namespace
}  // namespace ridge::ops::rope
