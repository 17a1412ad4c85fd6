// rmsnorm_backward: the gradients of rmsnorm, from one read of dy and x.
//
//   g = dy[i,j] w[j]     c[i] = rstd[i]^2 mean_j(g x[i,j])     dx[i,j] = (g - c[i] x[i,j]) rstd[i] + dsum[i,j]
//   dweight[j] = sum_i dy[i,j] x[i,j] rstd[i]
//
// Shapes    dy, x, dsum, dx [rows, cols]; weight, dweight [cols]; rstd [rows]. x is what was normalised: of a call with
//           residual its sum, and then dx is the gradient of both x and residual. dsum is what else arrives at the sum;
//           it may be left out. One of dx and dweight may be left out, weight where there was none. rows from 0, cols
//           from 1.
// Dtypes    dy, x, dsum and dx the same one of f32, bf16, f16; weight and dweight that one or f32; rstd f32.
// Layout    As rmsnorm's. Aliasing  No output may overlap an input or the other output.
// Numerics  In fp32, every output rounded once. dweight adds up rows in fp32 in an order that depends on shapes and
//           device alone. Bounds follow from the row model (row_model.cuh).
// NaN, Inf  A NaN or an infinity in dy, x or rstd makes its row of dx NaN or infinite, and its column of dweight.
// Same bits Always, whatever the number of threads.
// Cost      10 FLOP per element; every operand once.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, neither output, dweight or
//           zero_centred without a weight, with the values.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RmsnormBackwardArgs {
  TensorView dy, x, rstd;
  TensorView weight;  // rank 0: 1
  bool zero_centred = false;
  TensorView dsum;     // rank 0: none
  TensorView dx;       // written; rank 0: not wanted
  TensorView dweight;  // written; rank 0: not wanted
};

Status rmsnorm_backward(const RmsnormBackwardArgs& args, const Stream& stream);

namespace ops::rmsnorm_backward {
using Args = RmsnormBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
