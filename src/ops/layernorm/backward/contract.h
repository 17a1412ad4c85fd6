// layernorm_backward: the gradients of layernorm, from one read of dy and x.
//
//   n = (x[i,j] - mean[i]) rstd[i]     g = dy[i,j] w[j]
//   dx[i,j] = (g - mean_j(g) - n mean_j(g n)) rstd[i] + dsum[i,j]
//   dweight[j] = sum_i dy[i,j] n       dbias[j] = sum_i dy[i,j]
//
// Shapes    dy, x, dsum, dx [rows, cols]; weight, dweight, dbias [cols]; mean, rstd [rows]. x is what was normalised:
//           of a call with residual its sum, and then dx is the gradient of both x and residual. dsum is what else
//           arrives at the sum; it may be left out. One or two of dx, dweight and dbias may be left out, weight where
//           there was none. rows from 0, cols from 1.
// Dtypes    dy, x, dsum and dx the same one of f32, bf16, f16; weight that one or f32; dweight and dbias the weight's
//           (without a weight dbias is of the dtype of x); mean and rstd f32.
// Layout    As layernorm's. Aliasing  No output may overlap an input or another output.
// Numerics  In fp32, every output rounded once. dweight and dbias add up rows in fp32 in an order that depends on
//           shapes and device alone. Bounds follow from the row model (row_model.cuh); mean is what it is given as.
// NaN, Inf  A NaN or an infinity in dy, x, mean or rstd makes its row of dx NaN or infinite, and its column of dweight,
//           one in dy its column of dbias.
// Same bits Always, whatever the number of threads.
// Cost      11 FLOP per element for dx, 4 for dweight, 1 for dbias; every operand once.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, no output, dweight or
//           zero_centred without a weight, with the values.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct LayernormBackwardArgs {
  TensorView dy, x, mean, rstd;
  TensorView weight;  // rank 0: 1
  bool zero_centred = false;
  TensorView dsum;            // rank 0: none
  TensorView dx;              // written; rank 0: not wanted
  TensorView dweight, dbias;  // written; rank 0: not wanted
};

Status layernorm_backward(const LayernormBackwardArgs& args, const Stream& stream);

namespace ops::layernorm_backward {
using Args = LayernormBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
