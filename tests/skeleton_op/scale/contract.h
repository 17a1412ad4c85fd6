// scale: y = alpha * gain * x + beta, element by element, and where the largest x is.
//
// Shapes    x, gain, y: [n], any n from 0; top: [1]. gain and top may be left out (rank 0).
// Dtypes    f32; top i64.
// Layout    Contiguous; y may be x, otherwise no output may overlap an operand.
// Numerics  In fp32, alpha and beta rounded to it first: with p = alpha gain x, |y - exact| <= 2^-24 (2 |p| + |exact|).
//           top is the first element of the largest |x| that is no NaN, -1 where there is none: exactly.
// NaN, Inf  As IEEE arithmetic.
// Same bits Always.
// Cost      3 n FLOP; 4 n bytes for each of x, gain and y, and 8.
// Backward  dx and dgain: backward/contract.h; saves x where gain is given, and gain. top and beta have no gradient.
// Errors    kInvalidArgument: rank, dtype, shape, stride or null memory, an alpha that is not finite, with the values.
//
// alpha is a parameter: a real number that is part of a case. beta is a scalar: every call may bring another, and
// nothing is chosen or kept by it.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ScaleArgs {
  TensorView x;
  TensorView y;  // written
  double alpha = 2;
  float beta = 0;
  TensorView gain;  // rank 0: 1
  TensorView top;   // written; rank 0: not wanted
};

Status scale(const ScaleArgs& args, const Stream& stream);

namespace ops::scale {
using Args = ScaleArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
