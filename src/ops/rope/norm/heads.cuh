// Heads that are normalised: what the kernels of rope_norm and of its backward share. Threads of a block have a place
// of a head in x, a group of heads in y and a token in z. A group has heads of q alone or of k alone, so that a thread
// keeps one weight; the threads of a head add up over its places.
#pragma once
#include "../turn.cuh"

namespace ridge::cuda {
namespace {

constexpr u32 kHeads = RIDGE_HEADS;
// Places of a head where they are a power of two and share a warp, else 0.
constexpr u32 kLanes = RIDGE_LANES;
constexpr bool kWeight = RIDGE_WEIGHT != 0, kZeroCentred = RIDGE_ZERO_CENTRED != 0;
constexpr Number kTypeW = Number::RIDGE_TYPE_W;
constexpr u32 kCount = Piece::kCount;

// All elements of a place.
using Values = float[kPlacePieces][kCount];

// The heads of this thread: `first` and every `step` from there.
struct Group {
  bool of_q;
  u32 first, step, heads;

  __device__ __forceinline__ Group(u32 q_heads, u32 k_heads, u32 q_groups, u32 groups) {
    const u32 group = blockIdx.y * blockDim.y + threadIdx.y;
    of_q = group < q_groups;
    first = of_q ? group : group - q_groups;
    step = of_q ? q_groups : groups - q_groups;
    heads = of_q ? q_heads : group < groups ? k_heads : 0;
  }
  __device__ __forceinline__ u32 head(u32 i) const { return first + i * step; }
  __device__ __forceinline__ bool has(u32 i) const { return head(i) < heads; }
};

__device__ __forceinline__ u32 thread_of_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

// Whether a place has a piece: of an odd number of pieces that are not turned the last place has one.
__device__ __forceinline__ bool has_piece(const Place& place, u32 k) {
  return k == 0 || place.turned || place.second != place.first;
}
__device__ __forceinline__ u32 piece_of(const Place& place, u32 k) { return k == 0 ? place.first : place.second; }

// Sums over the places of a head, in every thread of it. All threads of a block call it.
template <u32 kSums>
__device__ __forceinline__ void add_up_head(float (&sums)[kSums]) {
  if constexpr (kLanes != 0) {
#pragma unroll
    for (u32 mask = 1; mask < kLanes; mask *= 2) {
#pragma unroll
      for (u32 i = 0; i < kSums; ++i) sums[i] += __shfl_xor_sync(~0u, sums[i], static_cast<int>(mask));
    }
  } else {
    extern __shared__ __align__(16) float parts[];
    const u32 threads = blockDim.x * blockDim.y * blockDim.z, thread = thread_of_block();
#pragma unroll
    for (u32 i = 0; i < kSums; ++i) parts[i * threads + thread] = sums[i];
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < kSums; ++i) {
      const float* const of_head = parts + i * threads + (thread - threadIdx.x);
      float sum = 0.0f;
      for (u32 x = 0; x < blockDim.x; ++x) sum += of_head[x];
      sums[i] = sum;
    }
    __syncthreads();
  }
}

// The factors of a place's elements.
__device__ __forceinline__ void load_factors(const u8* weight, const Place& place, Values& factors) {
#pragma unroll
  for (u32 k = 0; k < kPlacePieces; ++k) {
    const u32 piece = piece_of(place, k);
    if constexpr (!kWeight) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) factors[k][i] = 1.0f;
      continue;
    }
    if constexpr (kChunks) {
      constexpr u32 kEach = Chunk<kTypeW>::kCount;
#pragma unroll
      for (u32 i = 0; i < kCount; i += kEach) {
        Chunk<kTypeW> chunk;
        chunk.load_global(weight + (static_cast<u64>(piece) * kCount + i) * Chunk<kTypeW>::kBytes);
#pragma unroll
        for (u32 j = 0; j < kEach; ++j) factors[k][i + j] = chunk[j];
      }
    } else {
      factors[k][0] = load_number<kTypeW>(weight, piece);
    }
    if constexpr (kZeroCentred) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) factors[k][i] += 1.0f;
    }
  }
}

}  // namespace
}  // namespace ridge::cuda
