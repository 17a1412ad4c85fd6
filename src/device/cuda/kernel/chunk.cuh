// Rows in pieces of 16 bytes ("chunks"), which is what a load and a store move at once: as numbers and back.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

enum class Number { kF32, kBf16, kF16 };
inline constexpr u32 kInOrder = 0x3210;  // of four bytes

__device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7FC00000u); }
__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xFF800000u); }

// kNumbers of them as they are stored, in words of four bytes.
template <Number kType, u32 kNumbers>
struct Numbers {
  static constexpr u32 kCount = kNumbers, kBytes = kType == Number::kF32 ? 4 : 2;  // of an element
  static constexpr u32 kPerWord = 4 / kBytes, kWords = kCount / kPerWord;
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
  __device__ __forceinline__ void store_global(void* to) const {
    static_assert(kWords % 4 == 0 || kWords == 2, "whole stores");
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

// As many as one load moves.
template <Number kType>
struct Chunk : Numbers<kType, kType == Number::kF32 ? 4 : 8> {
  using Base = Numbers<kType, kType == Number::kF32 ? 4 : 8>;
  using Base::kWords;
  using Base::words;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) words[w] = 0;
  }
  // `order` is kInOrder, and the compiler does not know: what it made of the words before is of no use to it. Else it
  // keeps numbers of 16 bits that are needed again in fp32, in twice the registers, behind barriers and around loops.
  __device__ __forceinline__ void stay_packed(u32 order) {
    if constexpr (kType != Number::kF32) {
#pragma unroll
      for (u32 w = 0; w < kWords; ++w) words[w] = __byte_perm(words[w], 0, order);
    }
  }
  __device__ __forceinline__ void load_global(const void* from) {
    const uint4 raw = __ldg(static_cast<const uint4*>(from));
    words[0] = raw.x, words[1] = raw.y, words[2] = raw.z, words[3] = raw.w;
  }
  // Of what this thread may write afterwards, which the way of read-only data leaves undefined.
  __device__ __forceinline__ void load_own(const void* from) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from)
                 : "memory");
  }
  // What is read again soon (kAgain), or was read before and is not needed any more: hints to both levels of cache.
  template <bool kAgain>
  __device__ __forceinline__ void load_hinted(const void* from) {
    if constexpr (kAgain) {
      asm volatile(
          "{\n.reg .b64 policy;\n"
          "createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n"
          "ld.global.L1::evict_last.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;\n}"
          : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
          : "l"(from));
    } else {
      asm volatile(
          "{\n.reg .b64 policy;\n"
          "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
          "ld.global.L1::evict_first.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;\n}"
          : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
          : "l"(from));
    }
  }
  __device__ __forceinline__ void load_shared(u32 address) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  }
};

// One element anywhere.
template <Number kType>
__device__ __forceinline__ float load_number(const void* data, i64 at) {
  if constexpr (kType == Number::kF32) return static_cast<const float*>(data)[at];
  const u16 bits = static_cast<const u16*>(data)[at];
  if constexpr (kType == Number::kF16) return half_to_float(bits);
  return __uint_as_float(static_cast<u32>(bits) << 16);
}
template <Number kType>
__device__ __forceinline__ void store_number(void* data, i64 at, float value) {
  if constexpr (kType == Number::kF32) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<u16*>(data)[at] =
        static_cast<u16>(kType == Number::kF16 ? pack_f16(value, 0.0f) : pack_bf16(value, 0.0f));
  }
}
// What is left of a number that is stored.
template <Number kType>
__device__ __forceinline__ float rounded_number(float value) {
  if constexpr (kType == Number::kF32) return value;
  if constexpr (kType == Number::kF16) return half_to_float(static_cast<u16>(pack_f16(value, 0.0f)));
  return __uint_as_float(pack_bf16(value, 0.0f) << 16);
}

}  // namespace ridge::cuda
