// What the norms' kernels for GPUs share: the case that they are compiled for, and the numbers that go with columns.
//
// rmsnorm and layernorm are the same kernels (forward_rows.cuh, backward_rows.cuh): RIDGE_MEAN says whether the mean is
// taken off. Their launch plans fill the same parameters.
#pragma once
#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {
namespace {

constexpr Number kTypeX = Number::RIDGE_TYPE_X, kTypeW = Number::RIDGE_TYPE_W;
constexpr bool kMean = RIDGE_MEAN != 0, kZeroCentred = RIDGE_ZERO_CENTRED != 0, kResidual = RIDGE_RESIDUAL != 0;
constexpr bool kByChunks = RIDGE_VECTORS != 0, kCluster = RIDGE_CLUSTER != 0;
constexpr u32 kLanes = RIDGE_LANES, kPerThread = RIDGE_PER_THREAD;
constexpr u32 kSums = kMean ? 2 : 1;  // over a row

using ChunkX = Chunk<kTypeX>;
constexpr u32 kCount = ChunkX::kCount;                         // elements of a chunk of x
constexpr u32 kWeightChunks = kCount / Chunk<kTypeW>::kCount;  // of the weight for one of x
constexpr u32 kWeightBytes = kCount * Chunk<kTypeW>::kBytes;   // and their bytes

// A weight or a bias for a thread's columns, as it is stored.
template <bool kGiven>
struct Columns {
  Chunk<kTypeW> words[kGiven ? kPerThread : 1][kGiven ? kWeightChunks : 1];

  // Of the k-th chunk.
  template <class Loop>
  __device__ __forceinline__ void load(const Loop& loop, const u8* vector, u32 k) {
    if constexpr (kGiven) {
      const u32 c = loop.chunk(k);
      const u8* const from = vector + static_cast<u64>(loop.first_chunk() + c) * kWeightBytes;
#pragma unroll
      for (u32 i = 0; i < kWeightChunks; ++i) {
        words[k][i].clear();
        if (c < loop.chunks()) words[k][i].load_global(from + i * 16);
      }
    }
  }
  template <class Loop>
  __device__ __forceinline__ void load(const Loop& loop, const u8* vector) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) load(loop, vector, k);
  }
  __device__ __forceinline__ void stay_packed(u32 order, u32 k) {
    if constexpr (kGiven) {
#pragma unroll
      for (u32 i = 0; i < kWeightChunks; ++i) words[k][i].stay_packed(order);
    }
  }
  __device__ __forceinline__ void stay_packed(u32 order) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) stay_packed(order, k);
  }
  __device__ __forceinline__ float operator()(u32 k, u32 i) const {
    return words[k][i / Chunk<kTypeW>::kCount][i % Chunk<kTypeW>::kCount];
  }
  // As the factor of a column: 1 where there is no weight.
  __device__ __forceinline__ float factor(u32 k, u32 i) const {
    if constexpr (!kGiven) return 1.0f;
    return kZeroCentred ? 1.0f + (*this)(k, i) : (*this)(k, i);
  }
};

// The same of one column.
template <bool kGiven>
__device__ __forceinline__ float factor_of(const u8* weight, i64 column) {
  if constexpr (!kGiven) return 1.0f;
  const float w = load_number<kTypeW>(weight, column);
  return kZeroCentred ? 1.0f + w : w;
}

}  // namespace
}  // namespace ridge::cuda
