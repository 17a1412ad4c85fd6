// In which order keys lie in a row of V transposed. Includes nothing, so that a test runs it on the host.
//
// The product Q K^T leaves in lane l of a warp, with t = l % 4, the scores of keys 8 j + 2 t and 8 j + 2 t + 1, j = 0,
// 1,
// ... of its two rows. As an operand of the product with V, whose instruction takes 32 keys, the same lane holds of
// every 16 bytes of a row the bytes 4 t .. 4 t + 3. So of 16 keys it has
//
//   keys        2 t,  2 t + 1,  8 + 2 t,  8 + 2 t + 1        (j = 0 twice, j = 1 twice)
//   at bytes    4 t,  4 t + 1,  4 t + 2,  4 t + 3
//
// and a row of weights packed in the order in which they come has, at byte p, key 2 (p / 4) + p % 2 + 8 (p / 2 % 2). A
// sum does not care in which order its terms are: where V transposed has its keys in that order, too, no weight leaves
// its lane.
#pragma once

namespace ridge::cuda {

inline constexpr u32 kKeysOfOrder = 16;  // of which one order is made

// The key at a place among 16.
__device__ __forceinline__ constexpr u32 key_at(u32 place) { return place / 4 * 2 + place % 2 + place / 2 % 2 * 8; }

}  // namespace ridge::cuda
