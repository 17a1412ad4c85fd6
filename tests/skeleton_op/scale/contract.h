// scale: y = alpha * x, element by element.
//
// Shapes    x, y: [n], any n from 0.
// Dtypes    f32.
// Layout    Contiguous; y may be x, otherwise they must not overlap.
// Numerics  One multiplication in fp32: |y - alpha x| <= 2^-24 |alpha x|.
// NaN, Inf  As IEEE multiplication.
// Same bits Always.
// Cost      n FLOP; 8 n bytes.
// Backward  dx = alpha * dy: the same operator; saves nothing.
// Errors    kInvalidArgument: rank, dtype, shape, stride or null memory, with the values.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ScaleArgs {
  TensorView x;
  TensorView y;            // written
  std::int64_t alpha = 2;  // a whole number, so that it can be part of a case
};

Status scale(const ScaleArgs& args, const Stream& stream);

namespace ops::scale {
using Args = ScaleArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
