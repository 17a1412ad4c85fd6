// What the CUDA kernels of both directions share: numbers of a thread in memory, and rows that start anywhere.
#pragma once
#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

inline constexpr float kMostFloat = 3.402823466e38f;
__device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7FC00000u); }
__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xFF800000u); }

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

// Elements of a row that starts anywhere: `head` of them go one by one, then chunks of 16 bytes of what is read, then
// what is left. One by one go all where what is written, or read beside it, lies otherwise beside its chunks.
template <u32 kCount, u32 kReadBytes, u32 kWriteBytes>
struct Span {
  i64 count, head, chunks;

  // `more`: a second input, or the first again; `to`: null where nothing is written.
  __device__ __forceinline__ Span(const u8* from, const u8* more, const u8* to, i64 elements) : count(elements) {
    constexpr u32 kAligned = kCount * kWriteBytes > 16 ? 16 : kCount * kWriteBytes;
    const i64 lead = min(elements, static_cast<i64>((0 - reinterpret_cast<u64>(from)) % 16 / kReadBytes));
    const bool alike = (reinterpret_cast<u64>(from) ^ reinterpret_cast<u64>(more)) % 16 == 0 &&
                       (reinterpret_cast<u64>(to) + lead * kWriteBytes) % kAligned == 0;
    head = alike || to == nullptr ? lead : elements;
    chunks = (elements - head) / kCount;
  }
  __device__ __forceinline__ i64 ones() const { return count - chunks * kCount; }
  // The i-th of those that go one by one.
  __device__ __forceinline__ i64 one(i64 i) const { return i < head ? i : i + chunks * kCount; }
  __device__ __forceinline__ i64 chunk_at(i64 chunk) const { return head + chunk * kCount; }
};

}  // namespace ridge::cuda
