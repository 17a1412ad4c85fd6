// Where an element of a tile lies in shared memory. Tiles are stored as rows of 128 bytes; the copy engine and wgmma
// both permute the eight 16-byte chunks of row r by XOR with r mod 8, so that a column of eight rows touches all 32
// banks. The permutation is a function of address bits 4-6 and 7-9, hence the 1024-byte alignment of every tile.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

inline constexpr u32 kRowBytes = 128;    // one swizzle row
inline constexpr u32 kAtomBytes = 1024;  // eight rows: the period of the permutation
inline constexpr u32 kChunkBytes = 16;

// Byte offset of 16-byte chunk `chunk` of row `row` in a tile of 128-byte rows.
__device__ __forceinline__ constexpr u32 swizzled_chunk(u32 row, u32 chunk) {
  return row * kRowBytes + ((chunk ^ (row & 7u)) * kChunkBytes);
}

}  // namespace ridge::cuda
