// rmsnorm: y = x / sqrt(mean(x^2) + eps) * weight for every row of a matrix, of x alone or of x + residual.
//
//   h = x, or x + residual rounded once to the dtype        rstd[i] = 1 / sqrt(sum_j h[i,j]^2 / cols + eps)
//   y[i,j] = h[i,j] rstd[i] w[j]                            w = weight, or 1 + weight with `zero_centred`, or 1
//
// Shapes    x, residual, y, sum [rows, cols]; weight [cols]; rstd [rows]. rows from 0, cols from 1. residual comes with
//           sum, which is h; weight and rstd may be left out (rank 0).
// Dtypes    x, residual, y and sum the same one of f32, bf16, f16; weight that one or f32; rstd f32.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= cols apart, each operand's its
// own. Aliasing  No output may overlap an input or another output. Numerics  The sum, the root and the products in
// fp32; y is rounded once. y is made of h as it is stored, so that the
//           call is the composition of the addition and the norm. What an element may be off by follows from the row
//           model (row_model.cuh): the fp32 sum of cols squares, one root, two products, the store.
// NaN, Inf  A row with a NaN is NaN. A row with an infinity is NaN there and 0 elsewhere (rstd is 0); so is one whose
//           squares add up to more than fp32 holds, where it is 0 throughout. Other rows keep their values.
// Same bits Always, whatever the number of threads.
// Cost      4 FLOP per element (5 with residual); x, residual, weight, y, sum and rstd once.
// Streams   As gemm's.
// Backward  backward/contract.h; saves x (with residual sum alone), weight and rstd. rstd has no gradient of its own.
// Errors    kInvalidArgument: rank, dtype, shape, cols of 0, stride, null or overlapping memory, an eps that is
//           negative or not finite, zero_centred without a weight, with the values.
//
// eps       A scalar of the call: nothing is chosen or kept by it.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RmsnormArgs {
  TensorView x;
  TensorView y;  // written
  double eps = 1e-6;
  TensorView weight;  // rank 0: 1
  bool zero_centred = false;
  TensorView residual;  // rank 0: none
  TensorView sum;       // written; given where residual is
  TensorView rstd;      // written; rank 0: not wanted
};

Status rmsnorm(const RmsnormArgs& args, const Stream& stream);

namespace ops::rmsnorm {
using Args = RmsnormArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
