// Rows of a matrix that a mask may leave out and that have factors, eight of them at a time, as coding/tiles.cuh asks a
// source for them. Behind coding/elements.cuh.
#pragma once

namespace ridge::cuda {

template <bool kProbs, bool kMask>
struct CountedRows {
  const float* probs;
  const u8* mask;

  // A row that is none or masked is made of zeros, of which 0 is made whatever the function.
  struct EightRows {
    i64 first, end;
    u32 counts;    // a bit for each
    float factor;  // of one of them, by the lane
  };
  __device__ __forceinline__ EightRows find_rows(i64 rows, i64 row) const {
    const i64 mine = row + threadIdx.x % kSide;
    const bool counts = mine < rows && (!kMask || mask[mine] != 0);
    const u32 half = threadIdx.x / 16 % 2 * 16;
    return {row, rows, __ballot_sync(~0u, counts) >> half & 0xFFu, kProbs && counts ? __ldg(probs + mine) : 0.0f};
  }
  __device__ __forceinline__ i64 row_of(const EightRows& at, u32 i) const { return at.first + i; }
  __device__ __forceinline__ i64 end_of(const EightRows& at, u32 i) const {
    return kMask && (at.counts >> i & 1u) == 0 ? 0 : at.end;
  }
  __device__ __forceinline__ bool has_all(const EightRows& at) const { return at.counts == 0xFFu; }
  // By whole warps.
  __device__ __forceinline__ static float factor_of(const EightRows& at, u32 i) {
    return kProbs ? of_row(at.factor, i) : 1.0f;
  }
};

}  // namespace ridge::cuda
