// Eight elements of a row from memory into registers, packed as they are stored, or into a slot of shared memory first,
// for kernels that write 8-bit codes in tiles (tiles.cuh).
#pragma once
#include "../../device/cuda/kernel/copies.cuh"
#include "../../device/cuda/kernel/fp8.cuh"

namespace ridge::cuda {

enum class Element { kF32, kBf16, kF16 };

constexpr u32 kSide = 8;  // rows and columns of a thread

template <Element kType>
struct Packed {
  static constexpr bool kWide = kType == Element::kF32;
  static constexpr u32 kPerWord = kWide ? 1 : 2, kWords = kSide / kPerWord;  // elements of 32 bits, and such words
  using Row = u32[kWords];
  using Square = u32[kSide][kWords];
};

template <Element kType>
__device__ __forceinline__ float element_of(const typename Packed<kType>::Row& words, u32 j) {
  if constexpr (kType == Element::kF32) return __uint_as_float(words[j]);
  if constexpr (kType == Element::kF16) return half_to_float(static_cast<u16>(words[j / 2] >> (j % 2 * 16)));
  return __uint_as_float(j % 2 == 0 ? words[j / 2] << 16 : words[j / 2] & 0xFFFF0000u);
}

// A matrix as a launch plan gives it: the stride in elements.
struct StoredMatrix {
  const void* data;
  i64 stride;
};

// Columns col .. col + 8 of a row, zeros where there is no element: those count for no scale. `aligned`: rows start on
// 16 bytes. kWhole: the row and all eight columns are there, and aligned.
template <Element kType, bool kWhole = false>
__device__ __forceinline__ void load_eight(const StoredMatrix& x, bool aligned, i64 rows, i64 cols, i64 row, i64 col,
                                           typename Packed<kType>::Row& words) {
  using Pack = Packed<kType>;
  const u8* const from = static_cast<const u8*>(x.data) + (row * x.stride + col) * (4 / Pack::kPerWord);
  if (kWhole || (row < rows && aligned && col + kSide <= cols)) {
#pragma unroll
    for (u32 w = 0; w < Pack::kWords; w += 4) {
      const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from) + w / 4);
      words[w] = raw.x, words[w + 1] = raw.y, words[w + 2] = raw.z, words[w + 3] = raw.w;
    }
    return;
  }
#pragma unroll
  for (u32 w = 0; w < Pack::kWords; ++w) words[w] = 0;
  if (row >= rows) return;
#pragma unroll
  for (u32 j = 0; j < kSide; ++j) {
    if (col + j >= cols) continue;
    if constexpr (Pack::kWide) {
      words[j] = reinterpret_cast<const u32*>(from)[j];
    } else {
      words[j / 2] |= static_cast<u32>(reinterpret_cast<const u16*>(from)[j]) << (j % 2 * 16);
    }
  }
}

// The same into this thread's slot of shared memory, from where fetched_eight() reads them once the thread has waited
// for its copies. Slots of 16 bytes of a block's threads lie side by side, so no access of a warp collides in the
// banks. kWhole: the row and all eight columns are there, and aligned.
constexpr u32 kSlotThreads = 256;
template <Element kType>
constexpr u32 kSlotBytes = Packed<kType>::kWords * 4 * kSlotThreads;  // of all threads
template <Element kType>
__device__ __forceinline__ void keep_eight(u32 slot, const typename Packed<kType>::Row& words) {
#pragma unroll
  for (u32 w = 0; w < Packed<kType>::kWords; w += 4) {
    store_shared_16(slot + w * 4 * kSlotThreads, {words[w], words[w + 1], words[w + 2], words[w + 3]});
  }
}
template <Element kType, bool kWhole>
__device__ __forceinline__ void fetch_eight(u32 slot, const StoredMatrix& x, bool aligned, i64 rows, i64 cols, i64 row,
                                            i64 col) {
  using Pack = Packed<kType>;
  if (kWhole || (aligned && row < rows && col + kSide <= cols)) {
    const u8* const from = static_cast<const u8*>(x.data) + (row * x.stride + col) * (4 / Pack::kPerWord);
#pragma unroll
    for (u32 w = 0; w < Pack::kWords; w += 4) copy_chunk(slot + w * 4 * kSlotThreads, from + w * 4, 16);
    return;
  }
  typename Pack::Row words;
  load_eight<kType>(x, false, rows, cols, row, col, words);
  keep_eight<kType>(slot, words);
}
template <Element kType>
__device__ __forceinline__ void fetched_eight(u32 slot, typename Packed<kType>::Row& words) {
#pragma unroll
  for (u32 w = 0; w < Packed<kType>::kWords; w += 4) {
    const uint4 raw = load_shared_16(slot + w * 4 * kSlotThreads);
    words[w] = raw.x, words[w + 1] = raw.y, words[w + 2] = raw.z, words[w + 3] = raw.w;
  }
}

// Rows of q that those of a tile are: from `first` on, and none from `end` on.
struct Lines {
  i64 first, end;
};

// Eight columns of a matrix of two halves side by side that are made of the columns of one: from `col` on, and from
// number `turn` on `half` further left.
struct Under {
  i64 col;
  u32 turn;
};
__device__ __forceinline__ Under under_halves(i64 col, i64 half) {
  if (col + kSide <= half) return {col, kSide};
  return col < half ? Under{col, static_cast<u32>(half - col)} : Under{col - half, 0};
}
// load_eight() of them, from a matrix of `half` columns.
template <Element kType>
__device__ __forceinline__ void load_under(const StoredMatrix& from, bool aligned, i64 rows, i64 half, i64 row,
                                           const Under& under, typename Packed<kType>::Row& words) {
  using Pack = Packed<kType>;
  if (under.turn == 0 || under.turn == kSide) {
    return load_eight<kType>(from, aligned && under.col % kSide == 0, rows, half, row, under.col, words);
  }
#pragma unroll
  for (u32 w = 0; w < Pack::kWords; ++w) words[w] = 0;
  if (row >= rows) return;
  const i64 first = row * from.stride + under.col;
#pragma unroll
  for (u32 j = 0; j < kSide; ++j) {
    const i64 back = j < under.turn ? 0 : half;
    if (under.col + j - back >= half) continue;
    if constexpr (Pack::kWide) {
      words[j] = static_cast<const u32*>(from.data)[first + j - back];
    } else {
      words[j / 2] |= static_cast<u32>(static_cast<const u16*>(from.data)[first + j - back]) << (j % 2 * 16);
    }
  }
}

}  // namespace ridge::cuda
