// symmetric_product: C = alpha op(A) op(A)^T + beta R + shift I, a symmetric matrix of which half is computed. BLAS
// knows it as syrk; here both triangles of C are written.
//
//   C[i,j] = alpha sum_p op(A)[i,p] op(A)[j,p]  + beta R[min(i,j), max(i,j)]  + (i = j ? shift : 0)
//
// Shapes    op(A): [n,k], stored so, or [k,n] with trans_a; C and the residual R: [n,n]. Any size from 0; k = 0 leaves
//           the other terms, n = 0 does nothing. Batched: A, C and R have a first dimension more, the same size for
//           all.
// Scalars   alpha, beta and shift are rounded to fp32 and may change from call to call. Without a residual beta is not
//           looked at.
// Symmetry  C is symmetric to the last bit. Of R the elements on and above the diagonal count: those below have no
//           influence, whatever they hold.
// Dtypes    A f32, bf16 or f16; C that dtype or f32; R has C's.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, and no
//           alignment beyond the element's is needed. Elements between the rows are neither read nor written.
// Aliasing  C must not overlap A or R.
// Numerics  Products and sums in fp32, then alpha, R and the diagonal in fp32; C is rounded once. With u = 2^-24,
//           |C - exact| <= |alpha| (8 u sqrt(k) S + t |sum|) + u (|alpha sum| + |beta R| + |every sum with a term
//           more|) + half an ulp of C,   S = sum_p |op(A)[i,p]| |op(A)[j,p]|,   t = u (k / 8 + 4) of 16-bit A, else 0:
//           a tensor core cuts off towards zero in every step of 16 products, which adds up where all have one sign, as
//           those of the diagonal have.
//           Subnormal bf16 inputs and results may count as zero, as gemm's may.
// NaN, Inf  Propagate as the formula says: beta = 0 times an infinity of R is NaN. Sums beyond C's range become Inf.
// Same bits The CPU implementation gives the same bits for the same call, whatever the number of threads.
// Cost      n (n + 1) k FLOP; traffic: A once, C once, the upper half of R once.
// Streams   As gemm's.
// Backward  Of A, for a gradient G of C: alpha (G + G^T) op(A), a gemm. There is no entry for it.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, a scalar that is not finite, with
//           the values.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct SymmetricProductArgs {
  TensorView a;
  TensorView c;  // written
  bool trans_a = false;
  double alpha = 1;
  TensorView residual{};  // of C's shape; rank 0: none
  double beta = 1;
  double shift = 0;
};

Status symmetric_product(const SymmetricProductArgs& args, const Stream& stream);

namespace ops::symmetric_product {
using Args = SymmetricProductArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
