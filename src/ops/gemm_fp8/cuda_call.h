// What the CUDA implementations of gemm_fp8 share: the case and the scales in the kernels' words.
#pragma once

#include "base/error.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/gemm_fp8/product_case.h"
#include "ops/matmul/cuda/calls.h"

namespace ridge::ops::gemm_fp8 {

namespace gpu = device::cuda;

}  // namespace ridge::ops::gemm_fp8
