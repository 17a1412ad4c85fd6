// Copies of 16 bytes, or of 4, from global to shared memory that a thread starts and waits for itself (cp.async). What
// has arrived is there for the thread that copied it; others meet it at a barrier first.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

// Copies the first `bytes` of 16, and zeros behind them.
__device__ __forceinline__ void copy_chunk(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Copies 4 bytes, or zeros.
__device__ __forceinline__ void copy_word(u32 to, const void* from, bool has) {
  const u32 bytes = has ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Returns when at most `Pending` groups of this thread's copies are on their way.
template <u32 Pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace ridge::cuda
