// Rows straight from memory into registers, for operators of rows: many blocks that come and go, so that the loads of
// some are in flight while others add up or store. The other form is row_loop.cuh, which keeps loads in flight from
// few blocks; this one needs no shared memory, gives every multiprocessor rows as it gets ready for them, and ends at
// rows that the threads of one block hold.
//
// A team works on a row, kLanes threads of a warp or, with kLanes of 0, the block. A team of a warp holds kSide rows at
// once, so that a thread has some loads in flight however short rows are.
#pragma once
#include "chunk.cuh"

namespace ridge::cuda {

template <u32 kLanes, u32 kSide>
class RowTeam {
 public:
  static constexpr bool kBlock = kLanes == 0;
  static_assert(!kBlock || kSide == 1, "a block holds one row");

  __device__ __forceinline__ explicit RowTeam(u32 chunks) : chunks_(chunks) {}

  // Rows of a block, and of this team the one at `side` where the block's begin at `first`.
  __device__ __forceinline__ static u32 block_rows() { return teams() * kSide; }
  __device__ __forceinline__ static i64 row(i64 first, u32 side) {
    return first + (kBlock ? 0 : side * teams() + threadIdx.x / (kBlock ? 1 : kLanes));
  }
  // This thread's k-th chunk of a row.
  __device__ __forceinline__ static u32 chunk(u32 k) {
    if constexpr (kBlock) return k * blockDim.x + threadIdx.x;
    return k * kLanes + threadIdx.x % (kBlock ? 1 : kLanes);
  }
  __device__ __forceinline__ u32 chunks() const { return chunks_; }
  __device__ __forceinline__ static u32 first_chunk() { return 0; }

 private:
  __device__ __forceinline__ static u32 teams() { return kBlock ? 1 : blockDim.x / (kBlock ? 1 : kLanes); }

  u32 chunks_;
};

// Sums over a team of kSide numbers, for all of its threads, in an order that depends on shapes alone: one for each of
// its rows, or of a block's team some of its row. Of a block's team it holds a block barrier; a warp that is a sum
// ahead writes into the other half of `shared`.
template <u32 kLanes, u32 kSide>
class TeamSum {
 public:
  using Shared = float[2][kLanes == 0 ? kSide : 1][kWarpThreads];

  __device__ __forceinline__ explicit TeamSum(Shared& shared) : shared_(shared) {}

  __device__ __forceinline__ void operator()(float (&values)[kSide]) {
    constexpr u32 kWidth = kLanes == 0 ? kWarpThreads : kLanes;
#pragma unroll
    for (u32 s = 0; s < kSide; ++s) values[s] = over_lanes<kWidth>(values[s]);
    if constexpr (kLanes == 0) {
      const u32 lane = threadIdx.x % kWarpThreads;
#pragma unroll
      for (u32 s = 0; s < kSide; ++s) {
        if (lane == 0) shared_[turn_][s][threadIdx.x / kWarpThreads] = values[s];
      }
      __syncthreads();
#pragma unroll
      for (u32 s = 0; s < kSide; ++s) {
        values[s] = over_lanes<kWarpThreads>(lane < blockDim.x / kWarpThreads ? shared_[turn_][s][lane] : 0.0f);
      }
      turn_ ^= 1;
    }
  }

 private:
  template <u32 kWidth>
  __device__ __forceinline__ static float over_lanes(float value) {
#pragma unroll
    for (u32 mask = kWidth / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, static_cast<int>(mask));
    return value;
  }

  Shared& shared_;
  u32 turn_ = 0;
};

}  // namespace ridge::cuda
