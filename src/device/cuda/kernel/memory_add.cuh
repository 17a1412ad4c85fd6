// Adding fp32 partial results of many blocks into global memory: where the order does not matter, and in a fixed order,
// so that equal launches give equal bits.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

// The copy engine adds a plain run of fp32 values from shared memory, in the L2; addresses and size are multiples
// of 16. Tracked in groups like stores (tma.cuh).
__device__ __forceinline__ void add_bytes_f32(float* destination, u32 source, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   reinterpret_cast<u64>(destination)),
               "r"(source), "r"(bytes)
               : "memory");
}

// Four neighbouring values, added in the L2 without an answer.
__device__ __forceinline__ void add_global_v4(float* destination, float x, float y, float z, float w) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<u64>(destination)),
               "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}

// Blocks take turns at one place by a counter that starts at 0. A block may only wait for blocks that started before
// it.
__device__ __forceinline__ void await_turn(const u32* counter, u32 turn) {
  u32 seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(reinterpret_cast<u64>(counter)) : "memory");
  } while (seen != turn);
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
// Behind wait_stores_done(), by the thread that waited.
__device__ __forceinline__ void pass_turn_on(u32* counter) {
  asm volatile("fence.proxy.async.global;" ::: "memory");
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(reinterpret_cast<u64>(counter)) : "memory");
}

}  // namespace ridge::cuda
