// What kernels share that make a product for each group of rows, from offsets that the device alone knows: the table of
// groups that every block makes for itself, its walk over the tiles of all groups, and how a tile is stored of which
// only some rows are the group's. `Config` says besides what the pipeline asks of it
//   kAlongSums    whether a group's rows are summed over (C is a stack of matrices), or are rows of C
//   kWideOffsets  whether offsets are of 8 bytes
//   kGroupAlign   of what offsets are multiples, a power of two; others count as the multiple below
#pragma once
#include "../../device/cuda/kernel/epilogue.cuh"
#include "../../device/cuda/kernel/tile_scheduler.cuh"

namespace ridge::cuda {

// As the launch plan fills it.
struct GroupView {
  const void* offsets;  // [count + 1], of 4 or 8 bytes
  u32 count, rows;
};

// ---- Groups and their tiles

// In shared memory, made by every block for itself.
struct GroupTable {
  u32* begins;  // [count + 1]: the first row of each group, and the end of the last
  u32* order;   // along rows [count + 1]: tiles of the groups before; along sums [count]: groups, the largest first
};

// The sum or the maximum over this lane and those before it.
template <class Combine>
__device__ __forceinline__ u32 scan_warp(u32 value, u32 lane, const Combine& combine) {
#pragma unroll
  for (u32 step = 1; step < kWarpThreads; step *= 2) {
    const u32 before = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value = combine(value, before);
  }
  return value;
}

// By one warp. Offsets that fall are taken for the highest one before them, so that no row belongs to two groups.
__device__ __forceinline__ void never_fall(const GroupView& groups, u32* begins, u32 lane) {
  u32 highest = 0;
  for (u32 first = 0; first <= groups.count; first += kWarpThreads) {
    const u32 i = first + lane, own = i <= groups.count ? begins[i] : 0;
    const u32 begin = scan_warp(max(own, highest), lane, [](u32 x, u32 y) { return max(x, y); });
    if (i <= groups.count) begins[i] = begin;
    highest = __shfl_sync(~0u, begin, kWarpThreads - 1);
  }
}

template <class C>
__device__ __forceinline__ u32 tile_rows_of(u32 rows) {
  constexpr u32 kHigh = C::kBlockM * C::kClusterM;
  return (rows + kHigh - 1) / kHigh;
}

// By one warp.
template <class C>
__device__ __forceinline__ void count_tiles(const GroupView& groups, const GroupTable& table, u32 tile_cols, u32 lane) {
  u32 before = 0;
  if (lane == 0) table.order[0] = 0;
  for (u32 first = 0; first < groups.count; first += kWarpThreads) {
    const u32 g = first + lane;
    const u32 own = g < groups.count ? tile_rows_of<C>(table.begins[g + 1] - table.begins[g]) * tile_cols : 0;
    const u32 tiles = before + scan_warp(own, lane, [](u32 x, u32 y) { return x + y; });
    if (g < groups.count) table.order[g + 1] = tiles;
    before = __shfl_sync(~0u, tiles, kWarpThreads - 1);
  }
}

// Every group at its rank by size, of equal ones the earlier first: those without rows come last.
__device__ __forceinline__ void sort_groups(const GroupView& groups, const GroupTable& table) {
  for (u32 g = threadIdx.x; g < groups.count; g += blockDim.x) {
    const u32 rows = table.begins[g + 1] - table.begins[g];
    u32 rank = 0;
    for (u32 other = 0; other < groups.count; ++other) {
      const u32 its = table.begins[other + 1] - table.begins[other];
      rank += its > rows || (its == rows && other < g) ? 1 : 0;
    }
    table.order[rank] = g;
  }
}

// By all threads of the block, which then may read the table.
template <class C>
__device__ __forceinline__ void read_groups(const GroupView& groups, const GroupTable& table, u32 tile_cols) {
  for (u32 i = threadIdx.x; i <= groups.count; i += blockDim.x) {
    const i64 offset = C::kWideOffsets ? static_cast<const i64*>(groups.offsets)[i]
                                       : static_cast<i64>(static_cast<const i32*>(groups.offsets)[i]);
    u32 begin = static_cast<u32>(min(max(offset, static_cast<i64>(0)), static_cast<i64>(groups.rows)));
    if constexpr (C::kGroupAlign > 1) begin -= begin % C::kGroupAlign;
    table.begins[i] = begin;
  }
  __syncthreads();
  if (threadIdx.x < kWarpThreads) {
    never_fall(groups, table.begins, threadIdx.x);
    __syncwarp();
    if constexpr (!C::kAlongSums) count_tiles<C>(groups, table, tile_cols, threadIdx.x);
  }
  __syncthreads();
  if constexpr (C::kAlongSums) {
    sort_groups(groups, table);
    __syncthreads();
  }
}

struct GroupTile {
  u32 group, begin, rows;  // the group's first row, and how many it has
  TileCoordinate at;       // of the cluster's tile within the group's part of C
};

// The tiles of one cluster of a persistent grid.
template <class C>
struct GroupWalk {
  GroupTable table;
  TileGrid grid;  // of one C; along rows its number of rows is the group's own
  u32 tile, step, count;
  u32 group = 0;

  __device__ __forceinline__ bool more() const { return tile < count; }
  __device__ __forceinline__ void next() { tile += step; }
  __device__ __forceinline__ GroupTile at() {
    if constexpr (C::kAlongSums) {
      const u32 each = grid.rows * grid.cols, place = tile / each;
      return with(table.order[place], tile - place * each);
    } else {
      while (tile >= table.order[group + 1]) ++group;
      return with(group, tile - table.order[group]);
    }
  }

 private:
  __device__ __forceinline__ GroupTile with(u32 g, u32 index) const {
    const u32 begin = table.begins[g], rows = table.begins[g + 1] - begin;
    TileGrid own = grid;
    if constexpr (!C::kAlongSums) {
      own.rows = tile_rows_of<C>(rows);
      own.group = min(grid.group, own.rows);
    }
    return {g, begin, rows, tile_at(own, index)};
  }
};

// Along sums groups without rows have no tiles: no sums are needed for them.
__device__ __forceinline__ u32 groups_with_rows(const GroupTable& table, u32 count) {
  while (count > 0 && table.begins[table.order[count - 1]] == table.begins[table.order[count - 1] + 1]) --count;
  return count;
}

template <class C>
__device__ __forceinline__ GroupWalk<C> group_walk(const GroupTable& table, const TileGrid& grid,
                                                   const GroupView& groups) {
  const u32 count =
      C::kAlongSums ? groups_with_rows(table, groups.count) * grid.rows * grid.cols : table.order[groups.count];
  return {table, grid, blockIdx.x / C::kClusterBlocks, gridDim.x / C::kClusterBlocks, count};
}

// ---- Storing

// Where the accumulators of a warp go: column and row of C, the matrix of a stack, and how many rows from there on are
// the group's.
struct Place {
  i32 x, y, matrix, rows;
};

// The rows of a slab that are the group's own, 16 bytes by 16 bytes.
template <class C>
__device__ __forceinline__ void copy_slab(u32 buffer, const OutputView& c, const Place& place, i32 x, u32 lane) {
  constexpr u32 kPerChunk = 16 / (C::kTypeC == OutputType::kF32 ? 4 : 2), kBytes = 16 / kPerChunk;
#pragma unroll
  for (u32 i = 0; i < kSlabRows * 8 / kWarpThreads; ++i) {
    const u32 row = i * 4 + lane / 8, chunk = lane % 8;
    const u32 column = static_cast<u32>(x) + chunk * kPerChunk;
    if (static_cast<i32>(row) >= place.rows || column >= c.cols) continue;
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(buffer + swizzled_chunk(row, chunk))
                 : "memory");
    const i64 at = (static_cast<i64>(place.y) + row) * c.row_stride + column;
    *reinterpret_cast<uint4*>(static_cast<u8*>(c.data) + at * kBytes) = words;
  }
  __syncwarp();
}

// As store_warp_tile of epilogue.cuh, but a slab with rows of another group, which the copy engine would write as well,
// is copied by the warp.
template <class C, int kCount>
__device__ __forceinline__ void store_group_rows(const float (&d)[kCount], const TensorMap& map, const OutputView& c,
                                                 u32 buffers, const Place& place, u32 lane) {
  constexpr int kPerSlab = kSlabColumns<C::kTypeC> / 2;
  constexpr int kSlabs = (kCount + kPerSlab - 1) / kPerSlab;
  constexpr bool kWholeRounds = kSlabs % C::kSlabBuffers == 0;
  static_assert(kCount >= kPerSlab, "the tile is at least one 128-byte slab wide");
  const bool whole = C::kAlongSums || place.rows >= static_cast<i32>(kSlabRows);
#pragma unroll  // fully: `d` is in registers, so its indices must be constants
  for (int slab = 0; slab < kSlabs; ++slab) {
    const int first = slab * kPerSlab <= kCount - kPerSlab ? slab * kPerSlab : kCount - kPerSlab;
    const u32 buffer = buffers + (static_cast<u32>(slab) % C::kSlabBuffers) * kSlabBytes;
    if (lane == 0) {
      // Slabs that are copied are no stores of the engine, so their number tells nothing of those before.
      if (!whole || (slab == 0 && !kWholeRounds)) {
        wait_stores_read<0>();
      } else {
        wait_stores_read<C::kSlabBuffers - 1>();
      }
    }
    __syncwarp();
    if constexpr (C::kTypeC == OutputType::kF32) {
      write_slab_32bit(d, first, buffer, lane);
    } else {
      write_slab_16bit<C::kTypeC>(d, first, buffer, lane);
    }
    fence_proxy_async_shared();
    __syncwarp();
    const i32 x = place.x + 2 * first;
    if (!whole) {
      copy_slab<C>(buffer, c, place, x, lane);
    } else if (lane == 0) {
      const BoxCorner at{x, place.y, place.matrix, 0};
      if constexpr (C::kStore == StoreMode::kAdd) {
        store_box_add(map, buffer, at);
      } else {
        store_box(map, buffer, at);
      }
      commit_stores();
    }
  }
}

// Zeros in rows of C, `count` from `first` on in steps of the grid's blocks, by `threads` threads of each.
__device__ __forceinline__ void clear_rows(u8* data, i64 row_bytes, u32 width_bytes, u32 count, u32 thread,
                                           u32 threads) {
  for (u32 row = blockIdx.x; row < count; row += gridDim.x) {
    uint4* const to = reinterpret_cast<uint4*>(data + row * row_bytes);
    for (u32 chunk = thread; chunk < width_bytes / 16; chunk += threads) to[chunk] = make_uint4(0, 0, 0, 0);
  }
}

// What no product is made for: rows of no group; along sums, unless they are added, the matrices of empty groups.
template <class C>
__device__ __forceinline__ void clear_rest(const GroupView& groups, const GroupTable& table, const OutputView& c,
                                           i64 matrix_stride, u32 thread, u32 threads) {
  constexpr u32 kBytes = C::kTypeC == OutputType::kF32 ? 4 : 2;
  u8* const data = static_cast<u8*>(c.data);
  const i64 row_bytes = c.row_stride * kBytes;
  const u32 width = c.cols * kBytes;
  if constexpr (!C::kAlongSums) {
    const u32 end = table.begins[groups.count];
    clear_rows(data, row_bytes, width, table.begins[0], thread, threads);
    clear_rows(data + end * row_bytes, row_bytes, width, groups.rows - end, thread, threads);
  } else if constexpr (C::kStore == StoreMode::kOverwrite) {
    for (u32 place = groups_with_rows(table, groups.count); place < groups.count; ++place) {
      clear_rows(data + table.order[place] * matrix_stride * kBytes, row_bytes, width, c.rows, thread, threads);
    }
  }
}

}  // namespace ridge::cuda
