// What tile.h declares, for the instruction set of the file that includes this. Rows share every load; sums stay in
// registers.
#pragma once

#include "ops/attention/backward/simd/tile.h"
#include "ops/attention/simd/floats.h"

namespace ridge::ops::attention_backward {
namespace {

using attention::exponential, attention::Floats, attention::hyperbolic_tangent, attention::kLanes,
    attention::kRowsAtOnce, attention::kVectorsAtOnce, attention::load, attention::store, attention::take_off_distances;

// Rows of x against every key of a turned block.
template <int kRows>
inline __attribute__((always_inline)) void dots(const float* x, const float* turned, std::int64_t dim, float* out) {
  for (std::int64_t first = 0; first < kTileKeys; first += kVectorsAtOnce * kLanes) {
    Floats sum[kRows][kVectorsAtOnce] = {};
    for (std::int64_t c = 0; c < dim; ++c) {
      Floats key[kVectorsAtOnce];
      for (int i = 0; i < kVectorsAtOnce; ++i) load(key[i], turned + c * kTileKeys + first + i * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const float factor = x[r * dim + c];
        for (int i = 0; i < kVectorsAtOnce; ++i) sum[r][i] += key[i] * factor;
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVectorsAtOnce; ++i) store(out + r * kTileKeys + first + i * kLanes, sum[r][i]);
    }
  }
}

// Scores and products with v of a row become weights and slopes. What is above e^88 is infinite.
inline __attribute__((always_inline)) void weigh_row(Tile& tile, std::int64_t row) {
  float *const weights = tile.weights + row * kTileKeys, *const slopes = tile.slopes + row * kTileKeys;
  for (std::int64_t j = 0; j < kTileKeys; j += kLanes) {
    Floats x, product, slope = Floats{} + 1.0f;  // of a score by its softcap
    load(x, weights + j);
    load(product, slopes + j);
    x *= tile.scale;
    if (tile.cap != 0.0f) {
      x /= tile.cap;
      hyperbolic_tangent(x);
      slope = 1.0f - x * x;
      x *= tile.cap;
    }
    if (tile.slope != 0.0f) take_off_distances(x, tile.slope, tile.place[row] - j);
    x -= tile.log_sum_exp[row];
    x = x > 89.0f ? Floats{} + 89.0f : x;
    exponential(x);
    store(weights + j, x);
    store(slopes + j, x * (product - tile.delta[row]) * slope);
  }
}

template <int kRows>
inline __attribute__((always_inline)) void weigh_rows(Tile& tile, std::int64_t row) {
  dots<kRows>(tile.q + row * tile.dim, tile.k_turned, tile.dim, tile.weights + row * kTileKeys);
  dots<kRows>(tile.d_o + row * tile.v_dim, tile.v_turned, tile.v_dim, tile.slopes + row * kTileKeys);
  for (int r = 0; r < kRows; ++r) weigh_row(tile, row + r);
}

inline __attribute__((always_inline)) void weigh(Tile& tile, std::int64_t rows) {
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
    bool seen = false;
    for (int r = 0; r < kRowsAtOnce; ++r) seen = seen || tile.begin[row + r] < tile.end[row + r];
    if (seen) weigh_rows<kRowsAtOnce>(tile, row);
  }
  for (; row < rows; ++row) {
    if (tile.begin[row] < tile.end[row]) weigh_rows<1>(tile, row);
  }
}

// Vectors of outs from column `c` on. An out adds its own terms and no others: zero times an infinite value would be
// NaN.
template <int kOuts, int kVectors>
inline __attribute__((always_inline)) void add_vectors(const Product& x, std::int64_t first, std::int64_t c) {
  std::int64_t begin = x.begin[first], end = x.end[first];  // the terms of all outs
  for (int o = 1; o < kOuts; ++o) {
    begin = x.begin[first + o] > begin ? x.begin[first + o] : begin;
    end = x.end[first + o] < end ? x.end[first + o] : end;
  }
  if (end < begin) end = begin;
  Floats sum[kOuts][kVectors];
  const auto add_alone = [&](int o, std::int64_t from, std::int64_t to) __attribute__((always_inline)) {
    for (std::int64_t t = from; t < to; ++t) {
      const float factor = x.factors[(first + o) * x.out_step + t * x.term_step];
      for (int i = 0; i < kVectors; ++i) {
        Floats value;
        load(value, x.rows + t * x.dim + c + i * kLanes);
        sum[o][i] += value * factor;
      }
    }
  };
  for (int o = 0; o < kOuts; ++o) {
    for (int i = 0; i < kVectors; ++i) load(sum[o][i], x.out + (first + o) * x.dim + c + i * kLanes);
    add_alone(o, x.begin[first + o], x.end[first + o] < begin ? x.end[first + o] : begin);
  }
  for (std::int64_t t = begin; t < end; ++t) {
    Floats value[kVectors];
    for (int i = 0; i < kVectors; ++i) load(value[i], x.rows + t * x.dim + c + i * kLanes);
    for (int o = 0; o < kOuts; ++o) {
      const float factor = x.factors[(first + o) * x.out_step + t * x.term_step];
      for (int i = 0; i < kVectors; ++i) sum[o][i] += value[i] * factor;
    }
  }
  for (int o = 0; o < kOuts; ++o) {
    add_alone(o, x.begin[first + o] > end ? x.begin[first + o] : end, x.end[first + o]);
    for (int i = 0; i < kVectors; ++i) store(x.out + (first + o) * x.dim + c + i * kLanes, sum[o][i]);
  }
}

template <int kOuts>
inline __attribute__((always_inline)) void add_rows(const Product& x, std::int64_t first) {
  std::int64_t c = 0;
  for (; c + kVectorsAtOnce * kLanes <= x.dim; c += kVectorsAtOnce * kLanes) {
    add_vectors<kOuts, kVectorsAtOnce>(x, first, c);
  }
  for (; c < x.dim; c += kLanes) add_vectors<kOuts, 1>(x, first, c);
}

inline __attribute__((always_inline)) void add(const Product& product) {
  std::int64_t first = 0;
  for (; first + kRowsAtOnce <= product.outs; first += kRowsAtOnce) add_rows<kRowsAtOnce>(product, first);
  for (; first < product.outs; ++first) add_rows<1>(product, first);
}

}  // namespace
}  // namespace ridge::ops::attention_backward
