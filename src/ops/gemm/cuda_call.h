// What the CUDA implementations of gemm share: the case in the kernels' words, and what the Hopper kernel takes.
#pragma once

#include "base/error.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/gemm/product_case.h"
#include "ops/matmul/cuda/calls.h"

namespace ridge::ops::gemm {

namespace gpu = device::cuda;

// Of the Hopper kernel: what is known before a call is made, from what the problem knows of its memory, and why it
// cannot run the problem.
matmul::BeforeCall before_call(const Problem& problem);
Refusal wgmma_refuses(const Problem& problem, const DeviceInfo& device);

}  // namespace ridge::ops::gemm
