// What pieces.h declares, for the instruction set of the file that includes this.
#pragma once

#include <cstring>

#include "ops/row_norm/simd/pieces.h"

namespace ridge::ops::row_norm {
namespace {

#define RIDGE_INLINE inline __attribute__((always_inline))

using Floats = float __attribute__((vector_size(64)));
constexpr std::int64_t kVector = 16;

template <class T>
RIDGE_INLINE void load(T& x, const float* from) {
  std::memcpy(&x, from, sizeof x);
}
RIDGE_INLINE void store(float* to, const Floats& x) { std::memcpy(to, &x, sizeof x); }

// first += a(at) and second += b(at), where term(at, a, b) sets them for a vector, and for every number behind the last
// whole block of 64.
template <bool kBoth, class Term>
RIDGE_INLINE void add_up(Lanes& first, Lanes& second, std::int64_t count, const Term& term) {
  Floats sums[4], more[4];
  for (int i = 0; i < 4; ++i) load(sums[i], first.value + i * kVector);
  for (int i = 0; kBoth && i < 4; ++i) load(more[i], second.value + i * kVector);
  std::int64_t j = 0;
  for (; j + 4 * kVector <= count; j += 4 * kVector) {
    for (int i = 0; i < 4; ++i) {
      Floats a, b;
      term(j + i * kVector, a, b);
      sums[i] += a;
      if (kBoth) more[i] += b;
    }
  }
  for (int i = 0; i < 4; ++i) store(first.value + i * kVector, sums[i]);
  for (int i = 0; kBoth && i < 4; ++i) store(second.value + i * kVector, more[i]);
  for (std::int64_t lane = 0; j < count; ++j, ++lane) {
    float a, b;
    term(j, a, b);
    first.value[lane] += a;
    if (kBoth) second.value[lane] += b;
  }
}

void square(Lanes& lanes, const float* x, std::int64_t count) {
  Lanes unused;
  add_up<false>(
      lanes, unused, count, [&]<class T>(std::int64_t at, T & a, T&) __attribute__((always_inline)) {
        T v;
        load(v, x + at);
        a = v * v;
      });
}

void moments(Lanes& sums, Lanes& squares, const float* x, float shift, std::int64_t count) {
  add_up<true>(
      sums, squares, count, [&]<class T>(std::int64_t at, T & a, T & b) __attribute__((always_inline)) {
        T v;
        load(v, x + at);
        a = v - shift;
        b = a * a;
      });
}

template <bool kCentre, bool kWeight>
RIDGE_INLINE void product_of(Lanes& products, Lanes& plain, const float* dy, const float* w, const float* x, float mean,
                             std::int64_t count) {
  add_up<kCentre>(
      products, plain, count, [&]<class T>(std::int64_t at, T & a, T & b) __attribute__((always_inline)) {
        T g, v;
        load(g, dy + at), load(v, x + at);
        if (kWeight) {
          T f;
          load(f, w + at);
          g = g * f;
        }
        b = g;
        a = g * (kCentre ? v - mean : v);
      });
}
void product(Lanes& products, Lanes& plain, const float* dy, const float* w, const float* x, const float* mean,
             std::int64_t count) {
  if (mean != nullptr && w != nullptr) return product_of<true, true>(products, plain, dy, w, x, *mean, count);
  if (mean != nullptr) return product_of<true, false>(products, plain, dy, w, x, *mean, count);
  if (w != nullptr) return product_of<false, true>(products, plain, dy, w, x, 0, count);
  product_of<false, false>(products, plain, dy, w, x, 0, count);
}

template <bool kCentre, bool kWeight, bool kBias>
RIDGE_INLINE void scale_of(const float* x, const Centre& centre, float factor, const float* w, const float* b, float* y,
                           std::int64_t count) {
  const float shift = centre.shift, rest = centre.rest;
  for (std::int64_t j = 0; j < count; ++j) {
    const float v = kCentre ? (x[j] - shift) - rest : x[j], scaled = kWeight ? v * factor * w[j] : v * factor;
    y[j] = kBias ? scaled + b[j] : scaled;
  }
}
template <bool kCentre>
RIDGE_INLINE void scale_by(const float* x, const Centre& centre, float factor, const float* w, const float* b, float* y,
                           std::int64_t count) {
  if (w != nullptr && b != nullptr) return scale_of<kCentre, true, true>(x, centre, factor, w, b, y, count);
  if (w != nullptr) return scale_of<kCentre, true, false>(x, centre, factor, w, b, y, count);
  if (b != nullptr) return scale_of<kCentre, false, true>(x, centre, factor, w, b, y, count);
  scale_of<kCentre, false, false>(x, centre, factor, w, b, y, count);
}
void scale(const float* x, const Centre* centre, float factor, const float* w, const float* b, float* y,
           std::int64_t count) {
  if (centre != nullptr) return scale_by<true>(x, *centre, factor, w, b, y, count);
  scale_by<false>(x, {}, factor, w, b, y, count);
}

void add(const float* x, const float* more, float* y, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = x[j] + more[j];
}

template <bool kCentre, bool kWeight, bool kMore>
RIDGE_INLINE void gradient_of(const float* dy, const float* w, const float* x, float mean, float plain, float c,
                              float rstd, const float* more, float* dx, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    const float g = kWeight ? dy[j] * w[j] : dy[j];
    const float one = (kCentre ? (g - plain) - c * (x[j] - mean) : g - c * x[j]) * rstd;
    dx[j] = kMore ? one + more[j] : one;
  }
}
template <bool kCentre>
RIDGE_INLINE void gradient_by(const float* dy, const float* w, const float* x, float mean, float plain, float c,
                              float rstd, const float* more, float* dx, std::int64_t n) {
  if (w != nullptr && more != nullptr)
    return gradient_of<kCentre, true, true>(dy, w, x, mean, plain, c, rstd, more, dx, n);
  if (w != nullptr) return gradient_of<kCentre, true, false>(dy, w, x, mean, plain, c, rstd, more, dx, n);
  if (more != nullptr) return gradient_of<kCentre, false, true>(dy, w, x, mean, plain, c, rstd, more, dx, n);
  gradient_of<kCentre, false, false>(dy, w, x, mean, plain, c, rstd, more, dx, n);
}
void gradient(const float* dy, const float* w, const float* x, const float* mean, float plain, float c, float rstd,
              const float* more, float* dx, std::int64_t count) {
  if (mean != nullptr) return gradient_by<true>(dy, w, x, *mean, plain, c, rstd, more, dx, count);
  gradient_by<false>(dy, w, x, 0, 0, c, rstd, more, dx, count);
}

void weight(const float* dy, const float* x, const float* mean, float rstd, float* sum, std::int64_t count) {
  if (mean == nullptr) {
    for (std::int64_t j = 0; j < count; ++j) sum[j] += dy[j] * (x[j] * rstd);
    return;
  }
  const float centre = *mean;
  for (std::int64_t j = 0; j < count; ++j) sum[j] += dy[j] * ((x[j] - centre) * rstd);
}

constexpr Pieces kPieces = {square, moments, scale, add, product, gradient, weight};

#undef RIDGE_INLINE

}  // namespace
}  // namespace ridge::ops::row_norm
