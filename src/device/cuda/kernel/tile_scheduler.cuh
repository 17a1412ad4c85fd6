// Which output tile comes next. A persistent block walks tiles first, first + blocks, ... of one list; the list is
// ordered so that the tiles in flight at one time form a compact rectangle, because what that rectangle reads per step
// (its rows of A plus its rows of B) has to come through L2. Groups alternate direction, so a group starts on the
// columns its predecessor left in the cache.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

struct TileGrid {
  u32 rows;         // cluster tiles along M
  u32 cols;         // cluster tiles along N
  u32 group;        // cluster tiles per group, along the grouped side
  u32 group_along;  // 0: groups of rows (M), 1: groups of columns (N)
};

struct TileCoordinate {
  u32 row;
  u32 col;
};

__device__ __forceinline__ TileCoordinate tile_at(const TileGrid& grid, u32 index) {
  const u32 major_tiles = grid.group_along == 0 ? grid.rows : grid.cols;
  const u32 minor_tiles = grid.group_along == 0 ? grid.cols : grid.rows;
  const u32 per_group = grid.group * minor_tiles;
  const u32 group_index = index / per_group;
  const u32 within = index - group_index * per_group;
  const u32 first = group_index * grid.group;
  const u32 size = min(grid.group, major_tiles - first);
  const u32 step = within / size;
  const u32 major = first + (within - step * size);
  const u32 minor = (group_index & 1u) ? minor_tiles - 1 - step : step;
  return grid.group_along == 0 ? TileCoordinate{major, minor} : TileCoordinate{minor, major};
}

// The tiles of one cluster of a persistent grid, in order. A kernel asks its walk for nothing else, so a walk over
// other lists of tiles has these members.
struct TileWalk {
  TileGrid grid;
  u32 tile;   // in the list
  u32 step;   // to the cluster's next
  u32 count;  // of the list

  __device__ __forceinline__ bool more() const { return tile < count; }
  __device__ __forceinline__ void next() { tile += step; }
  __device__ __forceinline__ TileCoordinate at() const { return tile_at(grid, tile); }
  // Every second tile of it, from its own `turn`, 0 or 1.
  __device__ __forceinline__ TileWalk alternating(u32 turn) const {
    return {grid, tile + turn * step, 2 * step, count};
  }
};

// The walk of this thread's cluster.
template <u32 kClusterBlocks>
__device__ __forceinline__ TileWalk tile_walk(const TileGrid& grid) {
  return {grid, blockIdx.x / kClusterBlocks, gridDim.x / kClusterBlocks, grid.rows * grid.cols};
}

}  // namespace ridge::cuda
