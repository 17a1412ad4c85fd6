// A ring of shared-memory stages between one producer thread and the consumer warps, across a cluster. Each stage has a
// `full` barrier (one arrival by the own producer plus the bytes of the stage, from any CTA that multicasts them) and
// an `empty` barrier (one arrival per consumer warp of every block that receives what this producer sends: a stage may
// be overwritten in a peer only once the peer's warps have let go of it).
#pragma once
#include "mbarrier.cuh"

namespace ridge::cuda {

// Position in the ring. The parity flips on every wrap; a producer starts on the opposite parity, because the stages of
// the first round are free although nothing has arrived.
template <u32 Stages>
struct RingPosition {
  u32 stage = 0;
  u32 parity = 0;

  __device__ __forceinline__ void advance() {
    ++stage;
    if (stage == Stages) {
      stage = 0;
      parity ^= 1u;
    }
  }
  // Skips `count` stages at once (a consumer that leaves a whole tile to another warpgroup).
  __device__ __forceinline__ void advance_by(u32 count) {
    const u32 target = stage + count;
    parity ^= (target / Stages) & 1u;
    stage = target % Stages;
  }
};

template <u32 Stages>
struct Ring {
  u32 barriers;  // shared address of 2 * Stages barriers: full, then empty

  static constexpr u32 kBytes = 2 * Stages * kBarrierBytes;

  __device__ __forceinline__ u32 full(u32 stage) const { return barriers + stage * kBarrierBytes; }
  __device__ __forceinline__ u32 empty(u32 stage) const { return barriers + (Stages + stage) * kBarrierBytes; }

  // By one thread, before any other use; the caller runs a cluster or block barrier afterwards. Where warps copy a part
  // of a stage, each arrives, too.
  __device__ __forceinline__ void init(u32 empty_arrivals, u32 full_arrivals = 1) const {
    for (u32 stage = 0; stage < Stages; ++stage) {
      barrier_init(full(stage), full_arrivals);
      barrier_init(empty(stage), empty_arrivals);
    }
    barrier_init_fence();
  }
};

}  // namespace ridge::cuda
