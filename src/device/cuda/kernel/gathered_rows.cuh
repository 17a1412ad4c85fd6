// Rows of an operand that lie anywhere in memory, brought into the ring of stages by the threads of a warpgroup: each
// copies 16 bytes at a time (cp.async) to where the copy engine's swizzle would put them. The engine itself would take
// a box of one row after the other. Every stage is handed to the consumers by one arrival of each of these warps,
// beside the one with the bytes of the other operand.
#pragma once
#include "copies.cuh"
#include "pipeline.cuh"
#include "swizzle.cuh"

namespace ridge::cuda {

// As the launch plan fills it.
struct GatherView {
  const i32* index;    // the row of the source for each row of the call; others than 0 .. sources - 1: zeros
  const void *a, *b;   // the source is one of the two
  i64 row_stride;      // of the source, in elements
  u32 sources, width;  // rows of the source, and elements of a row
};

inline constexpr u32 kGatherThreads = kWarpgroupThreads, kGatherWarps = kGatherThreads / kWarpThreads;
inline constexpr u32 kGatherRows = kGatherThreads / 8;  // that all threads copy 128 bytes of at a time
inline constexpr u32 kNoRow = ~0u;

// What one thread copies of a source of elements of kBytes: 16 bytes of every kGatherRows-th row of a tile.
template <u32 kCount, u32 kBytes>
struct GatheredRows {
  static constexpr u32 kPerChunk = kChunkBytes / kBytes;
  const GatherView& view;
  const u8* source;
  u32 thread;          // of kGatherThreads
  u32 number[kCount];  // of its rows: what the index says, not looked at yet
  const u8* at[kCount];
  u32 known;  // a bit for each row that the source has

  __device__ __forceinline__ u32 chunk() const { return thread % 8; }
  // Asks for the numbers of rows `first` on of the call; from `end` on it has none.
  __device__ __forceinline__ void read(u32 first, u32 end) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const u32 row = first + i * kGatherRows + thread / 8;
      number[i] = kNoRow;
      if (row < end) number[i] = static_cast<u32>(__ldg(view.index + row));
    }
  }
  // The places of these rows, from a column of the source on.
  __device__ __forceinline__ void locate(u32 column) {
    known = 0;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const bool has = number[i] < view.sources;
      known |= has ? 1u << i : 0u;
      at[i] = source + kBytes * ((has ? number[i] * view.row_stride : 0) + column + chunk() * kPerChunk);
    }
  }
  // How many of the thread's 16 bytes of the 128 from `column` on are within the rows.
  __device__ __forceinline__ u32 bytes_from(u32 column) const {
    const u32 mine = column + chunk() * kPerChunk;
    return mine < view.width ? min((view.width - mine) * kBytes, kChunkBytes) : 0;
  }
  // `bytes` of every row, `offset` bytes behind its place, to the tile at `to`.
  __device__ __forceinline__ void copy(u32 to, u32 offset, u32 bytes) const {
    const u32 place = to + swizzled_chunk(thread / 8, chunk());
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      copy_chunk(place + i * kGatherRows * kRowBytes, at[i] + offset, (known >> i & 1u) != 0 ? bytes : 0);
    }
  }
};

// The stages that rows are copied to, in the order of the ring: two are on their way at a time, and the first of them
// is handed over as soon as its rows have arrived.
template <u32 Stages>
struct CopiedStages {
  static constexpr u32 kAhead = 2;
  static_assert(Stages > kAhead, "a stage is let go of when the next one is multiplied");
  Ring<Stages> ring;
  u32 lane;
  RingPosition<Stages> oldest;
  u32 pending = 0;

  // Behind the copies of a stage.
  __device__ __forceinline__ void next() {
    commit_copies();
    if (++pending < kAhead) return;
    wait_copies<kAhead - 1>();
    hand_over();
  }
  // Behind the last stage.
  __device__ __forceinline__ void finish() {
    wait_copies<0>();
    while (pending != 0) hand_over();
  }

 private:
  __device__ __forceinline__ void hand_over() {
    fence_proxy_async_shared();  // the matrix unit reads what was written here
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.full(oldest.stage));
    oldest.advance();
    --pending;
  }
};

}  // namespace ridge::cuda
