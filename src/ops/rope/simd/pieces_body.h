// What pieces.h declares, for the instruction set of the file that includes this. Blocks of pairs go through arrays of
// their own: y may be x, and a compiler would not make vectors of the loops.
#pragma once

#include <cstring>

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

using Floats = float __attribute__((vector_size(64)));
// In halves, without memory between them.
inline __attribute__((always_inline)) float total(const Floats& x) {
  const auto eight = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// What term(i, t) sets t to for a vector or a number at i, added up: two sums of sixteen lanes each, so that an
// addition need not wait for the one before.
template <class Term>
inline __attribute__((always_inline)) float add_up(std::int64_t count, const Term& term) {
  Floats even = {}, odd = {}, t;
  std::int64_t i = 0;
  for (; i + 2 * kBlock <= count; i += 2 * kBlock) {
    term(i, t);
    even += t;
    term(i + kBlock, t);
    odd += t;
  }
  float rest = 0, one;
  for (; i < count; ++i) {
    term(i, one);
    rest += one;
  }
  return total(even + odd) + rest;
}

float squares(const float* x, std::int64_t count) {
  return add_up(
      count, [&]<class T>(std::int64_t i, T & t) __attribute__((always_inline)) {
        std::memcpy(&t, x + i, sizeof t);
        t *= t;
      });
}
float products(const float* g, const float* w, const float* x, std::int64_t count) {
  return add_up(
      count, [&]<class T>(std::int64_t i, T & t) __attribute__((always_inline)) {
        T factor, other;
        std::memcpy(&t, g + i, sizeof t), std::memcpy(&factor, w + i, sizeof t), std::memcpy(&other, x + i, sizeof t);
        t = t * factor * other;
      });
}

constexpr Pieces kPieces = {halves, neighbours, squares, products};

}  // namespace
}  // namespace ridge::ops::rope
