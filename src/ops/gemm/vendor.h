// What the implementations that call another library share. They are peers to be measured against: loaded at run time
// with the kernels of this processor forced, because their own detection may take a new processor for an old one.
#pragma once

#include <string>

#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {

// Sizes and strides of the 32-bit BLAS interface, nothing empty and no epilogue. Null: fine.
Refusal refuse_by_size(const Shape& shape);
// The same for row strides, which are known only at the call.
Status check_strides(const Problem& problem, std::span<const TensorView> operands);

// sgemm through a CBLAS interface: f32 only.
using CblasSgemm = void(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                        const float* b, int ldb, float beta, float* c, int ldc);
Status run_cblas(CblasSgemm* sgemm, const Problem& problem, std::span<const TensorView> operands);
Refusal refuse_all_but_f32(const Shape& shape, std::string_view library);

}  // namespace ridge::ops::gemm
