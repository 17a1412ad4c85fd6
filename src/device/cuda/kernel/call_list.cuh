// Several calls of one kernel in one launch: their parameters in a row, and the block at which each begins. The host
// fills it (device/cuda/call_list.h); the kernel finds the call of its block and does that call's block.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

template <class Parameters>
struct CallList {
  // As many as go into 4 KiB, what a launch may carry on every GPU and driver.
  static constexpr u32 kMost = (4096 - 8) / (sizeof(Parameters) + 4);
  Parameters calls[kMost];
  u32 first[kMost];  // block of the launch
  u32 count;
};

// Where a block of a launch is: in which call, and at which of its blocks.
struct BlockOfList {
  u32 call, block, blocks;
};

template <class Parameters>
__device__ __forceinline__ BlockOfList block_of_list(const CallList<Parameters>& list) {
  u32 call = 0, end = list.count;  // begins at or before this block; begins behind it
  while (end - call > 1) {
    const u32 middle = (call + end) / 2;
    if (list.first[middle] <= blockIdx.x)
      call = middle;
    else
      end = middle;
  }
  const u32 first = list.first[call], next = call + 1 < list.count ? list.first[call + 1] : gridDim.x;
  return {call, blockIdx.x - first, next - first};
}

}  // namespace ridge::cuda
