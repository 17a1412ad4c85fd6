// The order in which clusters of blocks take the tiles of a matrix. A wave of clusters covers `group` tiles on one side
// and clusters / group on the other; what it reads through L2 in each step of K is the sum of the two sides in
// elements, least where the rectangle is square.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ridge::record {

struct TileWalk {
  std::int64_t group = 1, along = 0;  // along: 0 groups rows of tiles, 1 columns
};

// `high` and `wide` are the elements of a cluster's tile, `rows` and `cols` the tiles of the matrix.
inline TileWalk tile_walk(std::int64_t high, std::int64_t wide, std::int64_t rows, std::int64_t cols,
                          std::int64_t clusters) {
  constexpr std::int64_t kMostGroup = 32;
  constexpr double kLastGroupIsNarrow = 1.02;
  TileWalk best;
  double least = 1e300;
  for (std::int64_t along = 0; along < 2; ++along) {
    const std::int64_t sides = along == 0 ? rows : cols;
    for (std::int64_t group = 1; group <= std::min(sides, kMostGroup); ++group) {
      const double across = static_cast<double>(clusters) / static_cast<double>(group);
      double cost = along == 0 ? static_cast<double>(group * high) + across * static_cast<double>(wide)
                               : static_cast<double>(group * wide) + across * static_cast<double>(high);
      if (sides % group != 0 && sides > group) cost *= kLastGroupIsNarrow;
      if (cost >= least) continue;
      least = cost;
      best = {group, along};
    }
  }
  return best;
}

}  // namespace ridge::record
