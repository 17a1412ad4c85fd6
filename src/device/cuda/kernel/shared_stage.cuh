// How the blocks of a cluster share the loads of a stage: blocks in a row of the cluster need the same rows of A,
// blocks in a column the same columns of B, so each loads a part and multicasts it to the others. `Config` names the
// cluster (kClusterM by kClusterN blocks) and the depth of a stage.
#pragma once
#include "tma.cuh"
#include "wgmma.cuh"

namespace ridge::cuda {

struct BlockPlace {
  u32 in_m, in_n;    // position in the cluster
  u16 share_a_mask;  // blocks that read the same A tile: same in_m
  u16 share_b_mask;  // blocks that read the same B tile: same in_n
};

template <class C>
__device__ __forceinline__ BlockPlace place_in_cluster() {
  BlockPlace place{};
  const u32 rank = C::kMulticast ? cluster_rank() : 0;
  place.in_m = rank % C::kClusterM;
  place.in_n = rank / C::kClusterM;
  for (u32 n = 0; n < C::kClusterN; ++n) place.share_a_mask |= static_cast<u16>(1u << (place.in_m + C::kClusterM * n));
  for (u32 m = 0; m < C::kClusterM; ++m) place.share_b_mask |= static_cast<u16>(1u << (m + C::kClusterM * place.in_n));
  return place;
}

// Calls load(offset in the stage, x, y) for every box of part `part` of an operand's stage, of kParts equal ones.
// K-major: parts are rows of the tile. MN-major: parts are whole 64-wide columns where the count divides
// (kSplitColumns), else ranges of K rows. (x, y) is the box's corner in the operand as it is stored.
template <class C, Major kMajor, u32 kTileRows, u32 kParts, bool kSplitColumns, class Load>
__device__ __forceinline__ void load_part(i32 k, i32 mn, u32 part, const Load& load) {
  if constexpr (kMajor == Major::kK) {
    constexpr u32 kRows = kTileRows / kParts;
    load(part * kRows * kRowBytes, k, mn + static_cast<i32>(part * kRows));
  } else {
    constexpr u32 kColumns = kTileRows / 64;
    constexpr u32 kColumnBytes = C::kBlockK * kRowBytes;
    if constexpr (kSplitColumns) {
      constexpr u32 kMine = kColumns / kParts;
#pragma unroll
      for (u32 i = 0; i < kMine; ++i) {
        const u32 column = part * kMine + i;
        load(column * kColumnBytes, mn + static_cast<i32>(column * 64), k);
      }
    } else {
      constexpr u32 kDepth = C::kBlockK / kParts;
#pragma unroll
      for (u32 column = 0; column < kColumns; ++column) {
        load(column * kColumnBytes + part * kDepth * kRowBytes, mn + static_cast<i32>(column * 64),
             k + static_cast<i32>(part * kDepth));
      }
    }
  }
}

}  // namespace ridge::cuda
