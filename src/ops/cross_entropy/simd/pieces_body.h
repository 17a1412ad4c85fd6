// What pieces.h declares, for the instruction set of the file that includes this. Every function of one number is
// free of branches, so that a compiler makes vectors of the loops.
#pragma once

#include <cmath>

#include "ops/cross_entropy/simd/pieces.h"
#include "ops/exponential.h"

namespace ridge::ops::cross_entropy {
namespace {

constexpr std::int64_t kLanes = 64;

// Calls block(first) for every 64 numbers, and rest(at, lane) for each of what is left.
template <class Block, class Rest>
inline __attribute__((always_inline)) void in_blocks(std::int64_t count, const Block& block, const Rest& rest) {
  std::int64_t first = 0;
  for (; first + kLanes <= count; first += kLanes) block(first);
  for (std::int64_t lane = 0; first + lane < count; ++lane) rest(first + lane, lane);
}

float largest(const float* x, std::int64_t count) {
  float most[kLanes];
  for (float& one : most) one = -INFINITY;
  in_blocks(
      count,
      [&](std::int64_t first) __attribute__((always_inline)) {
        for (std::int64_t j = 0; j < kLanes; ++j) most[j] = x[first + j] > most[j] ? x[first + j] : most[j];
      },
      [&](std::int64_t at, std::int64_t lane) { most[lane] = x[at] > most[lane] ? x[at] : most[lane]; });
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {  // in pairs: one after the other they would wait
    for (std::int64_t j = 0; j < width; ++j) most[j] = most[j + width] > most[j] ? most[j + width] : most[j];
  }
  return most[0];
}

template <bool kKept>
inline __attribute__((always_inline)) void powers_of(const float* x, float most, float* e, Lanes& lanes,
                                                     std::int64_t count) {
  float sums[kLanes];
  for (std::int64_t j = 0; j < kLanes; ++j) sums[j] = lanes.value[j];
  in_blocks(
      count,
      [&](std::int64_t first) __attribute__((always_inline)) {
        float terms[kLanes];
        for (std::int64_t j = 0; j < kLanes; ++j) terms[j] = normal_power_of(x[first + j] - most);
        for (std::int64_t j = 0; j < kLanes; ++j) sums[j] += terms[j];
        for (std::int64_t j = 0; kKept && j < kLanes; ++j) e[first + j] = terms[j];
      },
      [&](std::int64_t at, std::int64_t lane) {
        const float term = normal_power_of(x[at] - most);
        sums[lane] += term;
        if (kKept) e[at] = term;
      });
  for (std::int64_t j = 0; j < kLanes; ++j) lanes.value[j] = sums[j];
}
void powers(const float* x, float most, float* e, Lanes& lanes, std::int64_t count) {
  if (e != nullptr) return powers_of<true>(x, most, e, lanes, count);
  powers_of<false>(x, most, e, lanes, count);
}

void sum(const float* x, Lanes& lanes, std::int64_t count) {
  in_blocks(
      count,
      [&](std::int64_t first) __attribute__((always_inline)) {
        for (std::int64_t j = 0; j < kLanes; ++j) lanes.value[j] += x[first + j];
      },
      [&](std::int64_t at, std::int64_t lane) { lanes.value[lane] += x[at]; });
}

// out[j] = term(j), through an array of its own: out may be what the terms are made of, and a compiler would not make
// vectors of the loop.
template <class Term>
inline __attribute__((always_inline)) void write_each(std::int64_t count, float* out, const Term& term) {
  in_blocks(
      count,
      [&](std::int64_t first) __attribute__((always_inline)) {
        float terms[kLanes];
        for (std::int64_t j = 0; j < kLanes; ++j) terms[j] = term(first + j);
        for (std::int64_t j = 0; j < kLanes; ++j) out[first + j] = terms[j];
      },
      [&](std::int64_t at, std::int64_t) __attribute__((always_inline)) { out[at] = term(at); });
}

// cap tanh(t) of t = x / cap, by the sigmoid s of 2 t: s - (1 - s). Of a small t that difference has no digits, which a
// large cap would show: there it is x times a polynomial in t^2, the best of its degree for tanh(t) / t up to t = 1/2
// (relative error 1.3e-8).
inline __attribute__((always_inline)) float softened(float x, float cap, float inverse) {
  const float t = x * inverse, square = t * t;
  const float high = 0.13324779F + square * (-0.052986074F + square * 0.017135007F);
  const float near = x * (1.0F + square * (-0.3333307F + square * high));
  const Sigmoid s = sigmoid_of(2 * t);
  const float far = cap * (s.value - s.rest);
  return square < 0.25F ? near : far;
}

void soften(const float* x, float cap, float* y, float* slope, std::int64_t count) {
  const float inverse = 1 / cap;
  if (slope != nullptr) {  // 1 - tanh^2 = 4 s (1 - s)
    write_each(
        count, slope, [&](std::int64_t j) __attribute__((always_inline)) {
          const Sigmoid s = sigmoid_of(2 * (x[j] * inverse));
          return 4 * s.value * s.rest;
        });
  }
  write_each(
      count, y, [&](std::int64_t j) __attribute__((always_inline)) { return softened(x[j], cap, inverse); });
}

void scale(const float* e, const Share& share, float* out, std::int64_t count) {
  const float factor = share.factor, shift = share.shift, scaled = share.scale;
  write_each(
      count, out, [&](std::int64_t j) __attribute__((always_inline)) { return scaled * (factor * e[j] - shift); });
}

void gradient(const float* x, float base, const Share& share, float* out, std::int64_t count) {
  const float factor = share.factor, shift = share.shift, scaled = share.scale;
  write_each(
      count, out, [&](std::int64_t j) __attribute__((always_inline)) {
        const float given = x[j] - base, most = given > 100 ? 100 : given;  // e^100 is infinite
        return scaled * (factor * power_of(most) - shift);
      });
}

void multiply(const float* factor, float* out, std::int64_t count) {
  write_each(
      count, out, [&](std::int64_t j) __attribute__((always_inline)) { return out[j] * factor[j]; });
}

constexpr Pieces kPieces = {largest, powers, sum, soften, scale, gradient, multiply};

}  // namespace
}  // namespace ridge::ops::cross_entropy
