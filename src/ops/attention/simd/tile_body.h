// What tile.h declares, for the instruction set of the file that includes this. Rows share every load of keys and
// values; sums stay in registers.
#pragma once

#include <limits>

#include "ops/attention/simd/floats.h"
#include "ops/attention/simd/tile.h"

namespace ridge::ops::attention {
namespace {

template <int kRows>
inline __attribute__((always_inline)) void scores(const Tile& tile, std::int64_t row, float* s) {
  for (std::int64_t first = 0; first < kTileKeys; first += kVectorsAtOnce * kLanes) {
    Floats sum[kRows][kVectorsAtOnce] = {};
    for (std::int64_t c = 0; c < tile.dim; ++c) {
      Floats key[kVectorsAtOnce];
      for (int i = 0; i < kVectorsAtOnce; ++i) load(key[i], tile.k + c * kTileKeys + first + i * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const float q = tile.q[(row + r) * tile.dim + c];
        for (int i = 0; i < kVectorsAtOnce; ++i) sum[r][i] += key[i] * q;
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVectorsAtOnce; ++i) {
        store(s + r * kTileKeys + first + i * kLanes, sum[r][i] * tile.scale);
      }
    }
  }
}

// cap tanh(score / cap) in place of each score of a row.
inline __attribute__((always_inline)) void cap_scores(float cap, float* s) {
  for (std::int64_t j = 0; j < kTileKeys; j += kLanes) {
    Floats x;
    load(x, s + j);
    x /= cap;
    hyperbolic_tangent(x);
    store(s + j, x * cap);
  }
}

// Takes a slope times the distance of the row's place and each key off its scores.
inline __attribute__((always_inline)) void take_off_distances(float slope, std::int64_t place, float* s) {
  for (std::int64_t j = 0; j < kTileKeys; j += kLanes) {
    Floats x;
    load(x, s + j);
    take_off_distances(x, slope, place - j);
    store(s + j, x);
  }
}

// Scores of a row become weights; what the row has so far is brought to the new maximum.
inline __attribute__((always_inline)) void softmax(Tile& tile, std::int64_t row, float* s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::int64_t begin = tile.begin[row], end = tile.end[row];
  float highest = tile.maximum[row];
  for (std::int64_t j = begin; j < end; ++j) highest = s[j] > highest ? s[j] : highest;
  const float offset = highest == -kInfinity ? 0.0f : highest;
  for (std::int64_t j = 0; j < begin; ++j) s[j] = -kInfinity;
  for (std::int64_t j = end; j < kTileKeys; ++j) s[j] = -kInfinity;
  Floats total[kVector / kLanes] = {};  // one order of additions for every width
  for (std::int64_t j = 0; j < kTileKeys; j += kLanes) {
    Floats x;
    load(x, s + j);
    x -= offset;
    exponential(x);
    store(s + j, x);
    total[j / kLanes % (kVector / kLanes)] += x;
  }
  Floats factor = Floats{} + (tile.maximum[row] - offset);
  exponential(factor);
  if (tile.maximum[row] != highest) {
    for (std::int64_t c = 0; c < tile.v_dim; c += kLanes) {
      Floats x;
      load(x, tile.o + row * tile.v_dim + c);
      store(tile.o + row * tile.v_dim + c, x * factor);
    }
    tile.sum[row] *= factor[0];
    tile.maximum[row] = highest;
  }
  for (int i = 0; i < kVector; ++i) tile.sum[row] += total[i / kLanes][i % kLanes];
}

// Vectors of o from column `c` on. A row adds the values that it sees and no others: zero times an infinite value
// would be NaN.
template <int kRows, int kVectors>
inline __attribute__((always_inline)) void add_vectors(Tile& tile, std::int64_t row, const float* s, std::int64_t c) {
  std::int64_t begin = tile.begin[row], end = tile.end[row];  // the keys that all rows see
  for (int r = 1; r < kRows; ++r) {
    begin = tile.begin[row + r] > begin ? tile.begin[row + r] : begin;
    end = tile.end[row + r] < end ? tile.end[row + r] : end;
  }
  if (end < begin) end = begin;
  Floats sum[kRows][kVectors];
  const auto add_alone = [&](int r, std::int64_t from, std::int64_t to) __attribute__((always_inline)) {
    for (std::int64_t j = from; j < to; ++j) {
      for (int i = 0; i < kVectors; ++i) {
        Floats value;
        load(value, tile.v + j * tile.v_dim + c + i * kLanes);
        sum[r][i] += value * s[r * kTileKeys + j];
      }
    }
  };
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kVectors; ++i) load(sum[r][i], tile.o + (row + r) * tile.v_dim + c + i * kLanes);
    add_alone(r, tile.begin[row + r], tile.end[row + r] < begin ? tile.end[row + r] : begin);
  }
  for (std::int64_t j = begin; j < end; ++j) {
    Floats value[kVectors];
    for (int i = 0; i < kVectors; ++i) load(value[i], tile.v + j * tile.v_dim + c + i * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const float weight = s[r * kTileKeys + j];
      for (int i = 0; i < kVectors; ++i) sum[r][i] += value[i] * weight;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    add_alone(r, tile.begin[row + r] > end ? tile.begin[row + r] : end, tile.end[row + r]);
    for (int i = 0; i < kVectors; ++i) store(tile.o + (row + r) * tile.v_dim + c + i * kLanes, sum[r][i]);
  }
}

template <int kRows>
inline __attribute__((always_inline)) void add_values(Tile& tile, std::int64_t row, const float* s) {
  std::int64_t c = 0;
  for (; c + kVectorsAtOnce * kLanes <= tile.v_dim; c += kVectorsAtOnce * kLanes) {
    add_vectors<kRows, kVectorsAtOnce>(tile, row, s, c);
  }
  for (; c < tile.v_dim; c += kLanes) add_vectors<kRows, 1>(tile, row, s, c);
}

template <int kRows>
inline __attribute__((always_inline)) void step_rows(Tile& tile, std::int64_t row) {
  bool seen = false;
  for (int r = 0; r < kRows; ++r) seen = seen || tile.begin[row + r] < tile.end[row + r];
  if (!seen) return;
  alignas(64) float s[kRows * kTileKeys];
  scores<kRows>(tile, row, s);
  for (int r = 0; r < kRows; ++r) {
    if (tile.cap != 0.0f) cap_scores(tile.cap, s + r * kTileKeys);
    if (tile.slope != 0.0f) take_off_distances(tile.slope, tile.place[row + r], s + r * kTileKeys);
    softmax(tile, row + r, s + r * kTileKeys);
  }
  add_values<kRows>(tile, row, s);
}

inline __attribute__((always_inline)) void tile_step(Tile& tile, std::int64_t rows) {
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) step_rows<kRowsAtOnce>(tile, row);
  for (; row < rows; ++row) step_rows<1>(tile, row);
}

}  // namespace
}  // namespace ridge::ops::attention
