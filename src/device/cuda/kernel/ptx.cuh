// Small wrappers for the instructions that C++ cannot spell. Device code only: no host header is included, because the
// same file is compiled by nvcc (ahead of time, in CI) and by NVRTC (at run time, where no host headers exist).
#pragma once

namespace ridge::cuda {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

inline constexpr u32 kWarpThreads = 32;
inline constexpr u32 kWarpgroupThreads = 128;

// Shared-memory instructions take a 32-bit address in the shared window, not a generic pointer.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// True in exactly one lane of a converged warp. The compiler knows that the branch behind it is taken by one lane, so
// the copy engine's instructions need no loop over active lanes.
__device__ __forceinline__ bool elect_one() {
  u32 chosen;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(chosen));
  return chosen != 0;
}

// A value that is equal in all lanes, told to the compiler: descriptors and barrier addresses computed from it then
// live in uniform registers, which is where wgmma and the copy engine read them.
__device__ __forceinline__ u32 warp_uniform(u32 value) { return __shfl_sync(0xffffffffu, value, 0); }

// Moves registers between warpgroups of a running block. Takes effect only in a kernel whose entry has a register cap
// (__launch_bounds__(threads, 1)); every warp of the warpgroup must execute it, and Count is a multiple of 8
// in 24..256.
template <int Count>
__device__ __forceinline__ void decrease_registers() {
  static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256, "setmaxnreg takes a multiple of 8 between 24 and 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ __forceinline__ void increase_registers() {
  static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256, "setmaxnreg takes a multiple of 8 between 24 and 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

// A barrier among `threads` threads of the block. Id 0 is __syncthreads, so callers number from 1.
__device__ __forceinline__ void named_barrier(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Counts this warp's threads towards a named barrier without waiting for it.
__device__ __forceinline__ void named_barrier_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Generic writes to shared memory (st.shared, stmatrix) and the copy engine go through different proxies: each writing
// thread runs this before the barrier behind which the copy engine (or wgmma) reads.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Programmatic dependent launch. A kernel launched without that attribute passes both at once.
__device__ __forceinline__ void wait_for_prior_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Two fp32 to one register of two 16-bit values, round to nearest even; `low` lands in the low half (the lower
// address).
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ u32 pack_f16(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// To one unit in the last place, without the branch that a division hides.
__device__ __forceinline__ float reciprocal(float x) {
  float value;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

// To 20 bits; the start of Newton's method. Of a zero, an infinity or a NaN it is what 1 / x is.
__device__ __forceinline__ double reciprocal_approx(double x) {
  double value;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(value) : "d"(x));
  return value;
}

// 2^x and log2 x by the special-function unit; denormal results and inputs count as zero.
__device__ __forceinline__ float exp2_approx(float x) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}
__device__ __forceinline__ float log2_approx(float x) {
  float value;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

__device__ __forceinline__ float half_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ float load_shared(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ u32 load_shared_u32(u32 address) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ void store_shared_u32(u32 address, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void load_shared_v2(u32 address, float& x, float& y) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared_v4(u32 address, float (&x)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(address)
               : "memory");
}
// 16 bytes, from an address that is a multiple of it.
__device__ __forceinline__ uint4 load_shared_16(u32 address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_16(u32 address, const uint4& x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
__device__ __forceinline__ void store_shared_v4(u32 address, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// Four 8x8 matrices of 16-bit values from the accumulator layout to rows of shared memory. Lanes 8i..8i+7 give the
// addresses of the rows of matrix i (16 bytes each); one instruction replaces eight 4-byte stores that would collide in
// the banks.
__device__ __forceinline__ void store_matrix_x4(u32 address, u32 m0, u32 m1, u32 m2, u32 m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}
// Every matrix transposed on its way: lane 8 i + r names the row that column r of matrix i becomes.
__device__ __forceinline__ void store_matrix_turned_x4(u32 address, u32 m0, u32 m1, u32 m2, u32 m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}
// The way back: rows of shared memory to the layout that mma and wgmma take for an operand in registers.
__device__ __forceinline__ void load_matrix_x4(u32 address, u32& m0, u32& m1, u32& m2, u32& m3) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
               : "r"(address)
               : "memory");
}
// 16 bytes, to an address that is a multiple of it.
__device__ __forceinline__ void store_global_v4(void* to, const u32 (&x)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(reinterpret_cast<u64>(to)), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ __forceinline__ void store_shared_v2(u32 address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

}  // namespace ridge::cuda
