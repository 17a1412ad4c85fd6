// A gemm of the library on a CPU, over something that multiplies: the epilogue, in bands of fp32 sums, and the errors.
#pragma once

#include <span>

#include "ops/matmul/simd/driver.h"
#include "ops/op.h"

namespace ridge::ops::gemm {

// False when there is no memory.
using Multiply = bool (*)(const matmul::simd::Arguments& arguments, int threads);

Status run_product(Multiply multiply, const Problem& problem, std::span<const TensorView> operands,
                   const Stream& stream);

}  // namespace ridge::ops::gemm
