// What pieces.h declares, for the instruction set of the file that includes this. Every function of one number is
// free of branches, so that a compiler makes vectors of the loops.
#pragma once

#include <cmath>

#include "ops/exponential.h"
#include "ops/softmax/simd/pieces.h"

namespace ridge::ops::softmax {
namespace {

constexpr std::int64_t kLanes = 64;

// Calls block(first) for every 64 numbers, and rest(at, lane) for each of what is left.
template <class Block, class Rest>
inline __attribute__((always_inline)) void in_blocks(std::int64_t count, const Block& block, const Rest& rest) {
  std::int64_t first = 0;
  for (; first + kLanes <= count; first += kLanes) block(first);
  for (std::int64_t lane = 0; first + lane < count; ++lane) rest(first + lane, lane);
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

// lanes += term(j), and keep(j, term).
template <class Term>
inline __attribute__((always_inline)) void add_each(std::int64_t count, Lanes& lanes, float* kept, const Term& term) {
  float sums[kLanes];
  for (std::int64_t j = 0; j < kLanes; ++j) sums[j] = lanes.value[j];
  in_blocks(
      count,
      [&](std::int64_t first) __attribute__((always_inline)) {
        float terms[kLanes];
        for (std::int64_t j = 0; j < kLanes; ++j) terms[j] = term(first + j);
        for (std::int64_t j = 0; j < kLanes; ++j) sums[j] += terms[j];
        for (std::int64_t j = 0; kept != nullptr && j < kLanes; ++j) kept[first + j] = terms[j];
      },
      [&](std::int64_t at, std::int64_t lane) __attribute__((always_inline)) {
        const float one = term(at);
        sums[lane] += one;
        if (kept != nullptr) kept[at] = one;
      });
  for (std::int64_t j = 0; j < kLanes; ++j) lanes.value[j] = sums[j];
}

// e^x of any x.
inline __attribute__((always_inline)) float any_power_of(float x) { return power_of(x > 100 ? 100 : x); }

void scale(const float* x, float factor, float* z, std::int64_t count) {
  write_each(
      count, z, [&](std::int64_t j) __attribute__((always_inline)) { return x[j] * factor; });
}

float largest(const float* z, std::int64_t count) {
  float most[kLanes];
  for (float& one : most) one = -INFINITY;
  in_blocks(
      count,
      [&](std::int64_t first) __attribute__((always_inline)) {
        for (std::int64_t j = 0; j < kLanes; ++j) most[j] = z[first + j] > most[j] ? z[first + j] : most[j];
      },
      [&](std::int64_t at, std::int64_t lane) { most[lane] = z[at] > most[lane] ? z[at] : most[lane]; });
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {  // in pairs: one after the other they would wait
    for (std::int64_t j = 0; j < width; ++j) most[j] = most[j + width] > most[j] ? most[j + width] : most[j];
  }
  return most[0];
}

void powers(const float* z, float most, float* e, Lanes& lanes, std::int64_t count) {
  const auto term = [&](std::int64_t j) __attribute__((always_inline)) { return normal_power_of(z[j] - most); };
  if (e != nullptr) return add_each(count, lanes, e, term);
  add_each(count, lanes, nullptr, term);
}

void logs(const float* z, float most, float log_sum, float* out, std::int64_t count) {
  write_each(
      count, out, [&](std::int64_t j) __attribute__((always_inline)) { return (z[j] - most) - log_sum; });
}

void sum(const float* dy, Lanes& lanes, std::int64_t count) {
  add_each(
      count, lanes, nullptr, [&](std::int64_t j) __attribute__((always_inline)) { return dy[j]; });
}

void products(const float* dy, const float* y, Lanes& lanes, std::int64_t count) {
  add_each(
      count, lanes, nullptr, [&](std::int64_t j) __attribute__((always_inline)) { return dy[j] * y[j]; });
}

void of_shares(const float* dy, const float* y, float sum, float factor, float* out, std::int64_t count) {
  write_each(
      count, out, [&](std::int64_t j) __attribute__((always_inline)) { return factor * (y[j] * (dy[j] - sum)); });
}

void of_logs(const float* dy, const float* y, float sum, float factor, float* out, std::int64_t count) {
  write_each(
      count,
      out, [&](std::int64_t j) __attribute__((always_inline)) { return factor * (dy[j] - any_power_of(y[j]) * sum); });
}

void of_sum(const float* z, float lse, float factor, float* out, std::int64_t count) {
  write_each(
      count, out, [&](std::int64_t j) __attribute__((always_inline)) { return factor * any_power_of(z[j] - lse); });
}

constexpr Pieces kPieces = {scale, largest, powers, logs, sum, products, of_shares, of_logs, of_sum};

}  // namespace
}  // namespace ridge::ops::softmax
