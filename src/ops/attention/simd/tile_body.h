// What tile.h declares, for the instruction set of the file that includes this. Two rows at a time share every load of
// keys and values.
#pragma once

#include <limits>

#include "ops/attention/simd/floats.h"
#include "ops/attention/simd/tile.h"

namespace ridge::ops::attention {
namespace {

template <int kRows>
inline __attribute__((always_inline)) void scores(const Tile& tile, std::int64_t row, float* s) {
  constexpr int kVectors = kTileKeys / kVector;
  Floats sum[kRows][kVectors] = {};
  for (std::int64_t c = 0; c < tile.dim; ++c) {
    Floats key[kVectors];
    for (int i = 0; i < kVectors; ++i) load(key[i], tile.k + c * kTileKeys + i * kVector);
    for (int r = 0; r < kRows; ++r) {
      const float q = tile.q[(row + r) * tile.dim + c];
      for (int i = 0; i < kVectors; ++i) sum[r][i] += key[i] * q;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kVectors; ++i) store(s + r * kTileKeys + i * kVector, sum[r][i] * tile.scale);
  }
}

// Scores of a row become weights; what the row has so far is brought to the new maximum.
inline __attribute__((always_inline)) void softmax(Tile& tile, std::int64_t row, float* s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::int64_t seen = tile.seen[row];
  float highest = tile.maximum[row];
  for (std::int64_t j = 0; j < seen; ++j) highest = s[j] > highest ? s[j] : highest;
  const float offset = highest == -kInfinity ? 0.0f : highest;
  for (std::int64_t j = seen; j < kTileKeys; ++j) s[j] = -kInfinity;
  Floats total = {};
  for (std::int64_t j = 0; j < kTileKeys; j += kVector) {
    Floats x;
    load(x, s + j);
    x -= offset;
    exponential(x);
    store(s + j, x);
    total += x;
  }
  Floats factor = Floats{} + (tile.maximum[row] - offset);
  exponential(factor);
  if (tile.maximum[row] != highest) {
    for (std::int64_t c = 0; c < tile.dim; c += kVector) {
      Floats x;
      load(x, tile.o + row * tile.dim + c);
      store(tile.o + row * tile.dim + c, x * factor);
    }
    tile.sum[row] *= factor[0];
    tile.maximum[row] = highest;
  }
  for (int i = 0; i < kVector; ++i) tile.sum[row] += total[i];
}

template <int kRows>
inline __attribute__((always_inline)) void add_values(Tile& tile, std::int64_t row, const float* s) {
  constexpr int kVectors = 4;
  std::int64_t most = 0;
  for (int r = 0; r < kRows; ++r) most = tile.seen[row + r] > most ? tile.seen[row + r] : most;
  for (std::int64_t c = 0; c < tile.dim; c += kVectors * kVector) {
    Floats sum[kRows][kVectors];
    const std::int64_t left = (tile.dim - c) / kVector;
    const int vectors = left < kVectors ? static_cast<int>(left) : kVectors;
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < vectors; ++i) load(sum[r][i], tile.o + (row + r) * tile.dim + c + i * kVector);
    }
    for (std::int64_t j = 0; j < most; ++j) {
      for (int r = 0; r < kRows; ++r) {
        if (j >= tile.seen[row + r]) continue;  // zero times an infinite value would be NaN
        const float weight = s[r * kTileKeys + j];
        for (int i = 0; i < vectors; ++i) {
          Floats value;
          load(value, tile.v + j * tile.dim + c + i * kVector);
          sum[r][i] += value * weight;
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < vectors; ++i) store(tile.o + (row + r) * tile.dim + c + i * kVector, sum[r][i]);
    }
  }
}

inline __attribute__((always_inline)) void tile_step(Tile& tile, std::int64_t rows) {
  alignas(64) float s[2 * kTileKeys];
  std::int64_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    if (tile.seen[row] == 0 && tile.seen[row + 1] == 0) continue;
    scores<2>(tile, row, s);
    softmax(tile, row, s);
    softmax(tile, row + 1, s + kTileKeys);
    add_values<2>(tile, row, s);
  }
  if (row < rows && tile.seen[row] != 0) {
    scores<1>(tile, row, s);
    softmax(tile, row, s);
    add_values<1>(tile, row, s);
  }
}

}  // namespace
}  // namespace ridge::ops::attention
