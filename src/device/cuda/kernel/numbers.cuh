// What becomes of a chunk that is stored in another type than it was read in: as many numbers, in more or fewer bytes.
#pragma once
#include "chunk.cuh"

namespace ridge::cuda {

// kCount numbers as they are stored, in words of four bytes.
template <Number kType, u32 kCount>
struct Numbers {
  static constexpr u32 kPerWord = kType == Number::kF32 ? 1 : 2, kWords = kCount / kPerWord, kBytes = kWords * 4;
  u32 words[kWords];

  __device__ __forceinline__ float operator[](u32 i) const {
    const u32 word = words[i / kPerWord];
    if constexpr (kType == Number::kF32) return __uint_as_float(word);
    if constexpr (kType == Number::kF16) return half_to_float(static_cast<u16>(i % 2 == 0 ? word : word >> 16));
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
  }
  __device__ __forceinline__ void set(const float (&values)[kCount]) {
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) {
      if constexpr (kType == Number::kF32) words[w] = __float_as_uint(values[w]);
      if constexpr (kType == Number::kBf16) words[w] = pack_bf16(values[2 * w], values[2 * w + 1]);
      if constexpr (kType == Number::kF16) words[w] = pack_f16(values[2 * w], values[2 * w + 1]);
    }
  }
  // Aligned to as many bytes as there are, up to 16.
  __device__ __forceinline__ void store(void* to) const {
    if constexpr (kWords == 2) {
      *static_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    } else {
#pragma unroll
      for (u32 w = 0; w < kWords; w += 4) {
        static_cast<uint4*>(to)[w / 4] = make_uint4(words[w], words[w + 1], words[w + 2], words[w + 3]);
      }
    }
  }
};

}  // namespace ridge::cuda
