// The bulk tensor copy engine (TMA). A copy moves one box of a tensor described by a 128-byte map; boxes that reach
// over the tensor's edge are filled with zeros on the way in and clipped on the way out, which is what makes ragged
// shapes correct without a predicate. A box always completes with its full byte count, clipped or not. Coordinates may
// be negative or past the end, but the first one times the element size must be a multiple of 16 bytes: a box at an odd
// column ends the kernel with an illegal instruction. Limits the maps must keep: base and all strides multiples of 16
// bytes, box sides at most 256, the box's inner side at most the swizzle span (128 bytes here), and shared addresses
// aligned to 1024 bytes for the 128-byte swizzle.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

// The driver's opaque descriptor, passed by value as a __grid_constant__ parameter: the engine reads it from constant
// space.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<u64>(&map)) : "memory");
}

__device__ __forceinline__ void load_box(u32 destination, const TensorMap& map, u32 barrier, i32 x, i32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          destination),
      "l"(reinterpret_cast<u64>(&map)), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// Into L2 alone, for a load that comes later.
__device__ __forceinline__ void prefetch_box(const TensorMap& map, i32 x, i32 y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(reinterpret_cast<u64>(&map)), "r"(x),
               "r"(y)
               : "memory");
}

// One read of L2 lands in every block named by the mask, at the same shared offset, and signals the barrier at the same
// offset in each. This is the only way below one L2 read per block and tile.
__device__ __forceinline__ void load_box_multicast(u32 destination, const TensorMap& map, u32 barrier, i32 x, i32 y,
                                                   u16 block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4}], "
      "[%2], %5;" ::"r"(destination),
      "l"(reinterpret_cast<u64>(&map)), "r"(barrier), "r"(x), "r"(y), "h"(block_mask)
      : "memory");
}

// The same for maps of four dimensions: a box of rows out of one head of one batch element, for example.
struct BoxCorner {
  i32 x, y, z, w;
};
__device__ __forceinline__ void load_box(u32 destination, const TensorMap& map, u32 barrier, const BoxCorner& at) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(destination),
      "l"(reinterpret_cast<u64>(&map)), "r"(barrier), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w)
      : "memory");
}
__device__ __forceinline__ void prefetch_box(const TensorMap& map, const BoxCorner& at) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(reinterpret_cast<u64>(&map)),
               "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w)
               : "memory");
}
__device__ __forceinline__ void load_box_multicast(u32 destination, const TensorMap& map, u32 barrier,
                                                   const BoxCorner& at, u16 block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(reinterpret_cast<u64>(&map)), "r"(barrier), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "h"(block_mask)
      : "memory");
}

// A plain run of bytes, no map: address and size are multiples of 16.
__device__ __forceinline__ void load_bytes(u32 destination, const void* source, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(reinterpret_cast<u64>(source)), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap& map, u32 source, i32 x, i32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(reinterpret_cast<u64>(&map)),
      "r"(source), "r"(x), "r"(y)
      : "memory");
}

__device__ __forceinline__ void store_box(const TensorMap& map, u32 source, const BoxCorner& at) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
                   reinterpret_cast<u64>(&map)),
               "r"(source), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w)
               : "memory");
}

// C += box, added in L2 by the memory system, so that accumulating into a gradient never brings C into a
// multiprocessor. One add per element and launch: the result does not depend on any order.
__device__ __forceinline__ void store_box_add(const TensorMap& map, u32 source, i32 x, i32 y) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                   reinterpret_cast<u64>(&map)),
               "r"(source), "r"(x), "r"(y)
               : "memory");
}

__device__ __forceinline__ void store_box_add(const TensorMap& map, u32 source, const BoxCorner& at) {
  asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
                   reinterpret_cast<u64>(&map)),
               "r"(source), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w)
               : "memory");
}

// Stores are tracked by the thread that issued them, in groups.
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Returns when at most `Pending` groups still have to *read* shared memory: the buffer may then be overwritten,
// although the global writes may still be in flight.
template <int Pending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Returns when the writes themselves are done. Needed before a dependent grid may be let in.
__device__ __forceinline__ void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace ridge::cuda
