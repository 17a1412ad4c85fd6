// What the CUDA kernels of both directions share: extremes of numbers as they are stored, and rows that start anywhere.
#pragma once
#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

inline constexpr float kMostFloat = 3.402823466e38f;

// The larger, or the smaller, of numbers as they are stored, in words of four bytes; a NaN counts as none.
template <Number kType, bool kLeast>
__device__ __forceinline__ u32 extreme(u32 a, u32 b) {
  if constexpr (kType == Number::kF32) {
    const float x = __uint_as_float(a), y = __uint_as_float(b);
    return __float_as_uint(kLeast ? fminf(x, y) : fmaxf(x, y));
  }
  u32 found = 0;
  if constexpr (kType == Number::kBf16 && kLeast) asm("min.bf16x2 %0, %1, %2;" : "=r"(found) : "r"(a), "r"(b));
  if constexpr (kType == Number::kBf16 && !kLeast) asm("max.bf16x2 %0, %1, %2;" : "=r"(found) : "r"(a), "r"(b));
  if constexpr (kType == Number::kF16 && kLeast) asm("min.f16x2 %0, %1, %2;" : "=r"(found) : "r"(a), "r"(b));
  if constexpr (kType == Number::kF16 && !kLeast) asm("max.f16x2 %0, %1, %2;" : "=r"(found) : "r"(a), "r"(b));
  return found;
}

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
