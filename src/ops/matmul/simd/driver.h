// Blocking, packing and threads around the register tiles.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ops/matmul/simd/blocks.h"
#include "ops/matmul/simd/kernels.h"
#include "ridge/dtype.h"

namespace ridge::ops::matmul::simd {

struct Arguments {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::kF32, out = DType::kF32;
  const void* a = nullptr;
  std::int64_t a_stride = 0;  // elements between stored rows
  bool trans_a = false;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  bool trans_b = false;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  bool accumulate = false;
};

// The fastest set this processor can run.
const KernelSet& best_kernels();

// Why this process cannot run the bf16 dot products of bf16dot_kernels(); empty: it can.
const std::string& bf16dot_missing();
// Whether it can, and has as many of them in a cycle as fp32 FMA: AMD's processors do, Intel's have half as many.
bool bf16dot_at_full_rate();

// False when there is no memory for packing. Every element is summed in the same order whatever `threads` is.
bool run(const KernelSet& kernels, const Arguments& arguments, int threads);

// Calls `block` on as many threads as the product is worth, each with a rectangle of C; a product without sums is done
// here. `unit`: the sums that a kernel makes at once; a thread is worth `work` products or more. False when a block is.
bool run_in_pieces(const Arguments& arguments, Grid unit, double work, int threads,
                   const std::function<bool(Range rows, Range cols)>& block);

}  // namespace ridge::ops::matmul::simd
