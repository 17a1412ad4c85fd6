// Eight elements of a row from memory into registers, packed as they are stored, or into a slot of shared memory first,
// for kernels that write 8-bit codes in tiles (tiles.cuh).
#pragma once
#include "../../device/cuda/kernel/copies.cuh"
#include "../../device/cuda/kernel/fp8.cuh"

namespace ridge::cuda {

enum class Element { kF32, kBf16, kF16 };

constexpr u32 kSide = 8;  // rows and columns of a thread

// GPUs with 113 KiB of shared memory for each of two blocks of a multiprocessor, where inputs are copied ahead. A
// launch asks for it where max_shared is at least 115712.
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr bool kMuchShared = true;
#else
constexpr bool kMuchShared = false;
#endif

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

// Where an element of a matrix lies.
template <Element kType>
__device__ __forceinline__ const u8* place_in(const StoredMatrix& x, i64 row, i64 col) {
  return static_cast<const u8*>(x.data) + (row * x.stride + col) * (4 / Packed<kType>::kPerWord);
}

// Eight columns of a row that are all there, on 16 bytes.
template <Element kType>
__device__ __forceinline__ void load_whole(const u8* from, typename Packed<kType>::Row& words) {
#pragma unroll
  for (u32 w = 0; w < Packed<kType>::kWords; w += 4) {
    const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from) + w / 4);
    words[w] = raw.x, words[w + 1] = raw.y, words[w + 2] = raw.z, words[w + 3] = raw.w;
  }
}
// Columns col .. col + 8 of a row, zeros where there is no element: those count for no scale. `aligned`: rows start on
// 16 bytes.
template <Element kType>
__device__ __forceinline__ void load_eight(const StoredMatrix& x, bool aligned, i64 rows, i64 cols, i64 row, i64 col,
                                           typename Packed<kType>::Row& words) {
  using Pack = Packed<kType>;
  const u8* const from = place_in<kType>(x, row, col);
  if (row < rows && aligned && col + kSide <= cols) return load_whole<kType>(from, words);
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

// A thread's slot of shared memory holds eight columns of a row, from where fetched_eight() reads them once the thread
// has waited for its copies. Slots of 16 bytes of a block's threads lie side by side, so no access of a warp collides
// in the banks.
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
// Starts to copy them, as load_whole() and load_eight() load them.
template <Element kType>
__device__ __forceinline__ void fetch_whole(u32 slot, const StoredMatrix& x, i64 row, i64 col) {
  const u8* const from = place_in<kType>(x, row, col);
#pragma unroll
  for (u32 w = 0; w < Packed<kType>::kWords; w += 4) copy_chunk(slot + w * 4 * kSlotThreads, from + w * 4, 16);
}
template <Element kType>
__device__ __forceinline__ void fetch_eight(u32 slot, const StoredMatrix& x, bool aligned, i64 rows, i64 cols, i64 row,
                                            i64 col) {
  if (aligned && row < rows && col + kSide <= cols) return fetch_whole<kType>(slot, x, row, col);
  typename Packed<kType>::Row words;
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

// Of eight rows of a thread, which the threads of half a warp have: what row i has, if `mine` is that of row
// threadIdx.x % 8. By whole warps.
template <class T>
__device__ __forceinline__ T of_row(T mine, u32 i) {
  return __shfl_sync(~0u, mine, threadIdx.x / 16 % 2 * 16 + i);
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
