// scale: y = alpha * x + beta, element by element.
//
// Shapes    x, y: [n], any n from 0.
// Dtypes    f32.
// Layout    Contiguous; y may be x, otherwise they must not overlap.
// Numerics  In fp32, alpha and beta rounded to it first: |y - exact| <= 2^-24 (|alpha x| + |exact|).
// NaN, Inf  As IEEE arithmetic.
// Same bits Always.
// Cost      2 n FLOP; 8 n bytes.
// Backward  dx = alpha * dy: the same operator; saves nothing.
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
};

Status scale(const ScaleArgs& args, const Stream& stream);

namespace ops::scale {
using Args = ScaleArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
