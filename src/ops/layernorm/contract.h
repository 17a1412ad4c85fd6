// layernorm: y = (x - mean) / sqrt(variance + eps) * weight + bias for every row of a matrix, of x alone or of
// x + residual.
//
//   h = x, or x + residual rounded once to the dtype     mean[i] = sum_j h[i,j] / cols
//   rstd[i] = 1 / sqrt(sum_j (h[i,j] - mean[i])^2 / cols + eps)
//   y[i,j] = (h[i,j] - mean[i]) rstd[i] w[j] + b[j]      w = weight, or 1 + weight with `zero_centred`, or 1; b = bias
//   or 0
//
// Shapes    x, residual, y, sum [rows, cols]; weight, bias [cols]; mean, rstd [rows]. rows from 0, cols from 1.
//           residual comes with sum, which is h; weight and bias may be left out (rank 0), and mean and rstd together.
// Dtypes    x, residual, y and sum the same one of f32, bf16, f16; weight that one or f32; bias weight's (without a
//           weight that one or f32); mean and rstd f32.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= cols apart, each operand's its
// own. Aliasing  No output may overlap an input or another output. Numerics  The sums, the root and the products in
// fp32; y is rounded once. Sums are of the distances from
//           a number of the row, so that a mean that is large beside the deviation costs no digits: rows of 10^4 + z
//           are as right as rows of z, but for `mean`, which is rounded to fp32. Bounds follow from the row model
//           (row_model.cuh). A row of equal numbers is b exactly.
// NaN, Inf  A row with a NaN or an infinity is NaN, so is its rstd, and its mean is not finite. A row whose squares add
//           up to more than fp32 holds has an rstd of 0 or NaN. Other rows keep their values.
// Same bits Always, whatever the number of threads.
// Cost      7 FLOP per element (8 with residual, 9 with bias); every operand once.
// Streams   As gemm's.
// Backward  backward/contract.h; saves x (with residual sum alone), weight, mean and rstd, which have no gradients.
// Errors    kInvalidArgument: rank, dtype, shape, cols of 0, stride, null or overlapping memory, an eps that is
//           negative or not finite, zero_centred without a weight, one of mean and rstd, with the values.
//
// eps       A scalar of the call: nothing is chosen or kept by it.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct LayernormArgs {
  TensorView x;
  TensorView y;  // written
  double eps = 1e-5;
  TensorView weight;  // rank 0: 1
  TensorView bias;    // rank 0: 0
  bool zero_centred = false;
  TensorView residual;    // rank 0: none
  TensorView sum;         // written; given where residual is
  TensorView mean, rstd;  // written; rank 0: not wanted
};

Status layernorm(const LayernormArgs& args, const Stream& stream);

namespace ops::layernorm {
using Args = LayernormArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
