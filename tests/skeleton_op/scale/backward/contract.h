// scale_backward: the gradients of scale, y = alpha * gain * x + beta.
//
//   dx = alpha * gain * dy        dgain = alpha * x * dy
//
// Shapes    All [n]. Either gradient may be left out (rank 0); gain where the forward had none, x where dgain is not
//           wanted.
// Dtypes    f32.
// Layout    Contiguous; no output may overlap another operand.
// Numerics  In fp32, alpha rounded to it first; two roundings: |found - exact| <= 2 * 2^-24 |exact|.
// NaN, Inf  As IEEE multiplication.
// Same bits Always.
// Cost      2 n FLOP a gradient; 4 n bytes for every operand.
// Errors    kInvalidArgument: rank, dtype, shape, stride or null memory, nothing asked for, dgain without x, with the
//           values.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ScaleBackwardArgs {
  TensorView dy;
  TensorView x, gain;    // saved by the forward; rank 0: see above
  TensorView dx, dgain;  // written; rank 0: not wanted
  double alpha = 2;
};

Status scale_backward(const ScaleBackwardArgs& args, const Stream& stream);

namespace ops::scale_backward {
using Args = ScaleBackwardArgs;
}

}  // namespace ridge
