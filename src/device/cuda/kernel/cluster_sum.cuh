// The sum of a tile over the blocks of a cluster, where each block computed a part of K. Every block ends as the owner
// of some pieces of the tile: it receives the others' partial sums of them in its own shared memory, as plain stores
// over the cluster's network, and adds them in the order of K. So the result does not depend on timing, needs no memory
// outside the cluster, and costs each block one tile minus its own pieces in traffic.
//
// A piece is what one warpgroup holds of 64 rows by 64 columns: 32 accumulators per thread. A thread of the owner
// receives from the threads of the same index, so each keeps its column of 16-byte words to itself: no bank conflicts,
// no layout.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

inline constexpr u32 kPieceBytes = 64 * 64 * 4;
inline constexpr int kPieceAccumulators = 32;

// Slot of `source`'s partial of the owner's `index`-th piece.
template <u32 kBlocks>
__device__ __forceinline__ u32 piece_slot(u32 index, u32 source, u32 owner) {
  return (index * (kBlocks - 1) + (source < owner ? source : source - 1)) * kPieceBytes;
}

// Writes accumulators first .. first + 31 to the slot at `address` (a shared address, the same in every block) of block
// `owner`. The receiver may read behind the next cluster barrier.
template <int kCount>
__device__ __forceinline__ void send_piece(const float (&d)[kCount], int first, u32 address, u32 owner, u32 thread) {
  u32 remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address + thread * 16), "r"(owner));
#pragma unroll
  for (int i = 0; i < kPieceAccumulators; i += 4) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(remote + (i / 4) * (kWarpgroupThreads * 16)),
                 "f"(d[first + i]), "f"(d[first + i + 1]), "f"(d[first + i + 2]), "f"(d[first + i + 3])
                 : "memory");
  }
}

// total += what lies in the slot.
__device__ __forceinline__ void add_piece(float (&total)[kPieceAccumulators], u32 address, u32 thread) {
#pragma unroll
  for (int i = 0; i < kPieceAccumulators; i += 4) {
    float x, y, z, w;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                 : "r"(address + thread * 16 + (i / 4) * (kWarpgroupThreads * 16))
                 : "memory");
    total[i] += x;
    total[i + 1] += y;
    total[i + 2] += z;
    total[i + 3] += w;
  }
}

}  // namespace ridge::cuda
