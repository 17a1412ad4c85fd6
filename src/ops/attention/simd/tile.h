// A tile of queries of one head against a block of keys, in fp32 vectors of 16: scores, online softmax, output.
// Compiled once per instruction set; the caller picks.
#pragma once

#include <cstdint>

namespace ridge::ops::attention {

inline constexpr std::int64_t kTileRows = 32, kTileKeys = 64, kVector = 16;

constexpr std::int64_t whole_vectors(std::int64_t dim) { return (dim + kVector - 1) / kVector * kVector; }

// Working memory of a tile; rows are padded to whole vectors, with zeros.
struct Tile {
  std::int64_t dim = 0, v_dim = 0;  // padded
  float scale = 1;                  // of the scores
  float cap = 0;                    // of the scores; 0: none
  float slope = 0;                  // taken off the scores for each key between a query's place and a key; 0: none
  float* q = nullptr;               // [kTileRows][dim]
  float* k = nullptr;               // [dim][kTileKeys], the block of keys turned
  float* v = nullptr;               // [kTileKeys][v_dim]
  float* o = nullptr;               // [kTileRows][v_dim], the running sums
  float maximum[kTileRows], sum[kTileRows];
  std::int64_t begin[kTileRows], end[kTileRows];  // keys of this block that a row sees, within 0 .. kTileKeys
  std::int64_t place[kTileRows];                  // of a row, from the first key of this block on
};

// One block of keys into o, maximum and sum, for the first `rows` rows.
using TileStep = void (*)(Tile& tile, std::int64_t rows);

void tile_step_portable(Tile& tile, std::int64_t rows);
void tile_step_avx2(Tile& tile, std::int64_t rows);
void tile_step_avx512(Tile& tile, std::int64_t rows);

}  // namespace ridge::ops::attention
