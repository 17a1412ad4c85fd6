// Products of matrices on a processor, through the fastest unit that it has for them.
#pragma once

#include "ops/matmul/simd/driver.h"
#include "ridge/tensor.h"

namespace ridge::ops::matmul {

// C = op(A) op(B), or C += it, of matrices; sizes and dtypes are those of the views.
simd::Arguments arguments_of(const TensorView& a, bool trans_a, const TensorView& b, bool trans_b, const TensorView& c,
                             bool accumulate);

// Whether bf16 is multiplied as it is: by the matrix unit (AMX), or by dot products at the full rate. Else it is
// widened to fp32.
bool multiplies_bf16();

// By what `multiplies_bf16` says where the operands are bf16. False when there is no memory for packing.
bool multiply(const simd::Arguments& arguments, int threads);

}  // namespace ridge::ops::matmul
