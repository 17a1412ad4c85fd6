// A tile of queries of one head against a block of keys, in fp32 vectors of 16: weights, their slopes, and the products
// that gradients are sums of. Compiled once per instruction set; the caller picks.
#pragma once

#include <cstdint>

#include "ops/attention/simd/tile.h"

namespace ridge::ops::attention_backward {

using attention::kTileKeys, attention::kTileRows, attention::kVector;

// Working memory of a tile; rows are padded to whole vectors, with zeros.
struct Tile {
  std::int64_t dim = 0, v_dim = 0;                 // padded
  float scale = 1;                                 // of the scores
  float cap = 0;                                   // of the scores; 0: none
  float slope = 0;                                 // taken off the scores, as in the tile of attention
  float *q = nullptr, *d_o = nullptr;              // [kTileRows][dim] and [kTileRows][v_dim]
  float *k_turned = nullptr, *v_turned = nullptr;  // [dim][kTileKeys] and [v_dim][kTileKeys]
  float *weights = nullptr, *slopes = nullptr;     // [kTileRows][kTileKeys], p and ds; written
  float log_sum_exp[kTileRows], delta[kTileRows];
  std::int64_t begin[kTileRows], end[kTileRows];  // keys of this block that a row sees, within 0 .. kTileKeys
  std::int64_t place[kTileRows];                  // of a row, from the first key of this block on
};

// out[i] += sum of factors[i * out_step + t * term_step] rows[t], over the terms begin[i] .. end[i].
struct Product {
  const float* factors = nullptr;
  std::int64_t out_step = 0, term_step = 0;
  const float* rows = nullptr;  // [..][dim]
  float* out = nullptr;         // [outs][dim]
  std::int64_t outs = 0, dim = 0;
  const std::int64_t *begin = nullptr, *end = nullptr;
};

struct TileKernels {
  void (*weigh)(Tile& tile, std::int64_t rows);
  void (*add)(const Product& product);
};
TileKernels tile_kernels_portable();
TileKernels tile_kernels_avx2();
TileKernels tile_kernels_avx512();

}  // namespace ridge::ops::attention_backward
