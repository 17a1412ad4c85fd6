// softmax_backward: the gradient of x of softmax, from its output.
//
//   form = softmax       dx[i,j] = scale y[i,j] (dy[i,j] - sum_k dy[i,k] y[i,k])
//   form = log_softmax   dx[i,j] = scale (dy[i,j] - exp(y[i,j]) sum_k dy[i,k])
//   form = logsumexp     dx[i,j] = scale dy[i] exp(scale x[i,j] - lse[i])
//
// Shapes    dy, y, x, dx [rows, cols]; lse, and dy of logsumexp, [rows]. x and lse are given for logsumexp alone, y for
//           the other forms alone.
// Dtypes    dx that of x; dy and y that of y; lse and dy of logsumexp f32. As in softmax, y is of x's dtype or f32.
// Layout, aliasing, same bits, streams, errors   As softmax's.
// Numerics  In fp32; dx is rounded once. y and lse are taken as they are stored: their rounding is no error of this
//           operator. Bounds follow from the row model (row_model.cuh).
// NaN, Inf  As the formulas have them: a row whose sum is no number is NaN, or infinite where y or exp(y) is not 0.
// Cost      About 6 FLOP per element, 15 with an exponential; every operand once, with the exceptions of softmax.
#pragma once

#include "ops/softmax/contract.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct SoftmaxBackwardArgs {
  TensorView dy;
  TensorView y;       // of softmax and log_softmax
  TensorView x, lse;  // of logsumexp
  TensorView dx;      // written
  SoftmaxForm form = SoftmaxForm::kSoftmax;
  double scale = 1;
};

Status softmax_backward(const SoftmaxBackwardArgs& args, const Stream& stream);

namespace ops::softmax_backward {
using Args = SoftmaxBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
