// What the CUDA implementations of gemm share: the case in the kernels' words.
#pragma once

#include "base/error.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/gemm/product_case.h"
#include "ops/matmul/cuda/calls.h"

namespace ridge::ops::gemm {

namespace gpu = device::cuda;

}  // namespace ridge::ops::gemm
