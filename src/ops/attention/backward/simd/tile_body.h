// What tile.h declares, for the instruction set of the file that includes this. Two rows at a time share every load.
#pragma once

#include "ops/attention/backward/simd/tile.h"
#include "ops/attention/simd/floats.h"

namespace ridge::ops::attention_backward {
namespace {

using attention::exponential, attention::Floats, attention::load, attention::store;

// Rows of x against every key of a turned block.
template <int kRows>
inline __attribute__((always_inline)) void dots(const float* x, const float* turned, std::int64_t dim, float* out) {
  constexpr int kVectors = kTileKeys / kVector;
  Floats sum[kRows][kVectors] = {};
  for (std::int64_t c = 0; c < dim; ++c) {
    Floats key[kVectors];
    for (int i = 0; i < kVectors; ++i) load(key[i], turned + c * kTileKeys + i * kVector);
    for (int r = 0; r < kRows; ++r) {
      const float factor = x[r * dim + c];
      for (int i = 0; i < kVectors; ++i) sum[r][i] += key[i] * factor;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kVectors; ++i) store(out + r * kTileKeys + i * kVector, sum[r][i]);
  }
}

// Scores and products with v of a row become weights and slopes. What is above e^88 is infinite.
inline __attribute__((always_inline)) void weigh_row(Tile& tile, std::int64_t row) {
  float *const weights = tile.weights + row * kTileKeys, *const slopes = tile.slopes + row * kTileKeys;
  for (std::int64_t j = 0; j < kTileKeys; j += kVector) {
    Floats x, product;
    load(x, weights + j);
    load(product, slopes + j);
    x = x * tile.scale - tile.log_sum_exp[row];
    x = x > 89.0f ? Floats{} + 89.0f : x;
    exponential(x);
    store(weights + j, x);
    store(slopes + j, x * (product - tile.delta[row]));
  }
}

template <int kRows>
inline __attribute__((always_inline)) void weigh_rows(Tile& tile, std::int64_t row) {
  dots<kRows>(tile.q + row * tile.dim, tile.k_turned, tile.dim, tile.weights + row * kTileKeys);
  dots<kRows>(tile.d_o + row * tile.dim, tile.v_turned, tile.dim, tile.slopes + row * kTileKeys);
  for (int r = 0; r < kRows; ++r) weigh_row(tile, row + r);
}

inline __attribute__((always_inline)) void weigh(Tile& tile, std::int64_t rows) {
  std::int64_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    if (tile.seen[row] != 0 || tile.seen[row + 1] != 0) weigh_rows<2>(tile, row);
  }
  if (row < rows && tile.seen[row] != 0) weigh_rows<1>(tile, row);
}

template <int kOuts>
inline __attribute__((always_inline)) void add_rows(const Product& x, std::int64_t first) {
  constexpr int kVectors = 4;
  std::int64_t begin = x.begin[first], end = x.end[first];
  for (int o = 1; o < kOuts; ++o) {
    begin = x.begin[first + o] < begin ? x.begin[first + o] : begin;
    end = x.end[first + o] > end ? x.end[first + o] : end;
  }
  for (std::int64_t c = 0; c < x.dim; c += kVectors * kVector) {
    Floats sum[kOuts][kVectors];
    const std::int64_t left = (x.dim - c) / kVector;
    const int vectors = left < kVectors ? static_cast<int>(left) : kVectors;
    for (int o = 0; o < kOuts; ++o) {
      for (int i = 0; i < vectors; ++i) load(sum[o][i], x.out + (first + o) * x.dim + c + i * kVector);
    }
    for (std::int64_t t = begin; t < end; ++t) {
      for (int o = 0; o < kOuts; ++o) {
        if (t < x.begin[first + o] || t >= x.end[first + o]) continue;  // zero times an infinite value would be NaN
        const float factor = x.factors[(first + o) * x.out_step + t * x.term_step];
        for (int i = 0; i < vectors; ++i) {
          Floats value;
          load(value, x.rows + t * x.dim + c + i * kVector);
          sum[o][i] += value * factor;
        }
      }
    }
    for (int o = 0; o < kOuts; ++o) {
      for (int i = 0; i < vectors; ++i) store(x.out + (first + o) * x.dim + c + i * kVector, sum[o][i]);
    }
  }
}

inline __attribute__((always_inline)) void add(const Product& product) {
  std::int64_t first = 0;
  for (; first + 2 <= product.outs; first += 2) add_rows<2>(product, first);
  if (first < product.outs) add_rows<1>(product, first);
}

}  // namespace
}  // namespace ridge::ops::attention_backward
