// What pieces.h declares, for the instruction set of the file that includes this.
#pragma once

#include <cstring>

#include "ops/rmsnorm/simd/pieces.h"

namespace ridge::ops::rmsnorm {
namespace {

using Floats = float __attribute__((vector_size(64)));
constexpr std::int64_t kVector = 16;

inline __attribute__((always_inline)) void load(Floats& x, const float* from) { std::memcpy(&x, from, sizeof x); }
inline __attribute__((always_inline)) void store(float* to, const Floats& x) { std::memcpy(to, &x, sizeof x); }

// lanes += term(at) of every vector and of what is left behind the last whole one.
template <class Vector, class Scalar>
inline __attribute__((always_inline)) void add_up(Lanes& lanes, std::int64_t count, const Vector& vector,
                                                  const Scalar& scalar) {
  Floats sums[4];
  for (int i = 0; i < 4; ++i) load(sums[i], lanes.value + i * kVector);
  std::int64_t j = 0;
  for (; j + 4 * kVector <= count; j += 4 * kVector) {
    for (int i = 0; i < 4; ++i) vector(sums[i], j + i * kVector);
  }
  for (int i = 0; i < 4; ++i) store(lanes.value + i * kVector, sums[i]);
  for (std::int64_t lane = 0; j < count; ++j, ++lane) lanes.value[lane] += scalar(j);
}

void square(Lanes& lanes, const float* x, std::int64_t count) {
  add_up(
      lanes, count,
      [&](Floats & sum, std::int64_t at) __attribute__((always_inline)) {
        Floats v;
        load(v, x + at);
        sum += v * v;
      },
      [&](std::int64_t at) { return x[at] * x[at]; });
}

void product(Lanes& lanes, const float* dy, const float* w, const float* x, std::int64_t count) {
  if (w == nullptr) {
    return add_up(
        lanes, count,
        [&](Floats & sum, std::int64_t at) __attribute__((always_inline)) {
          Floats g, v;
          load(g, dy + at), load(v, x + at);
          sum += g * v;
        },
        [&](std::int64_t at) { return dy[at] * x[at]; });
  }
  add_up(
      lanes, count,
      [&](Floats & sum, std::int64_t at) __attribute__((always_inline)) {
        Floats g, v, f;
        load(g, dy + at), load(v, x + at), load(f, w + at);
        sum += g * f * v;
      },
      [&](std::int64_t at) { return dy[at] * w[at] * x[at]; });
}

void scale(const float* x, const float* w, float factor, float* y, std::int64_t count) {
  if (w == nullptr) {
    for (std::int64_t j = 0; j < count; ++j) y[j] = x[j] * factor;
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) y[j] = x[j] * factor * w[j];
}

void add(const float* x, const float* more, float* y, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = x[j] + more[j];
}

template <bool kWeight, bool kMore>
inline __attribute__((always_inline)) void gradient_of(const float* dy, const float* w, const float* x, float c,
                                                       float rstd, const float* more, float* dx, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    const float g = kWeight ? dy[j] * w[j] : dy[j], one = (g - c * x[j]) * rstd;
    dx[j] = kMore ? one + more[j] : one;
  }
}
void gradient(const float* dy, const float* w, const float* x, float c, float rstd, const float* more, float* dx,
              std::int64_t count) {
  if (w != nullptr && more != nullptr) return gradient_of<true, true>(dy, w, x, c, rstd, more, dx, count);
  if (w != nullptr) return gradient_of<true, false>(dy, w, x, c, rstd, more, dx, count);
  if (more != nullptr) return gradient_of<false, true>(dy, w, x, c, rstd, more, dx, count);
  return gradient_of<false, false>(dy, w, x, c, rstd, more, dx, count);
}

void weight(const float* dy, const float* x, float rstd, float* sum, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) sum[j] += dy[j] * (x[j] * rstd);
}

constexpr Pieces kPieces = {square, scale, add, product, gradient, weight};

}  // namespace
}  // namespace ridge::ops::rmsnorm
