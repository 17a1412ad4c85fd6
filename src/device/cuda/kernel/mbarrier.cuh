// mbarrier: the shared-memory barrier that counts arrivals and, for the copy engine, bytes. A phase ends when the
// pending arrivals and the pending bytes both reach zero; waiting is on the parity of the phase, so a waiter may be one
// phase behind but never two. Barriers are named by their 32-bit shared address throughout.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

inline constexpr u32 kBarrierBytes = 8;

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes freshly initialised barriers visible to the other blocks of the cluster and to the copy engine. Still needs a
// block or cluster barrier behind it.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and announces `bytes` that the copy engine will deliver. Bytes from a peer's multicast may land before this:
// the byte count then goes negative for a moment, and the phase stays open because this arrival is still pending.
__device__ __forceinline__ void barrier_arrive_expect_bytes(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives on the barrier at the same offset in block `rank` of the cluster (the own block is allowed). Without an
// explicit scope on purpose: spelled `.release.cluster`, the compiler puts a GPU-wide memory barrier in front of every
// arrival, which cost a quarter of the matrix product's speed. What the arrival announces here is that wgmma has
// finished reading a stage, which its wait has already established; no ordinary write needs releasing.
__device__ __forceinline__ void barrier_arrive_in_block(u32 barrier, u32 rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// try_wait suspends the thread in hardware for a bounded time; the loop only re-arms it.
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace ridge::cuda
