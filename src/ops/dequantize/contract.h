// dequantize: y = q * scale, element by element: what 8-bit codes with their scales stand for.
//
// Shapes    q [rows, cols], scale as ridge/scaling.h says for that granularity, y [rows, cols]. Any size from 0.
// Dtypes    q e4m3fn or e5m2; scale f32, for kMx E8M0; y f32, bf16, f16.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, the scales'
// too. Aliasing  y must not overlap q or scale. Numerics  The product in fp32, rounded to y; in f32 it is the only
//           right number, in bf16 and f16 the sole freedom is that a product within 2^-24 of the middle between two
//           numbers may become either.
// NaN, Inf  As IEEE multiplication; products beyond y's range become Inf. A scale of NaN makes its elements NaN.
// Same bits Always.
// Cost      1 FLOP per element; q, scale and y once.
// Backward  None.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values.
#pragma once

#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct DequantizeArgs {
  TensorView q, scale;
  TensorView y;  // written
  Granularity granularity = Granularity::kTensor;
};

Status dequantize(const DequantizeArgs& args, const Stream& stream);

namespace ops::dequantize {
using Args = DequantizeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
