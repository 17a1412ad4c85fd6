// combine_rows_backward: the gradient of combine_rows's weights, which says how much each source of a row counts.
//
//   dweights[t, k] = sum over j of dy[t, j] * x[from[t, k], j]          0 where from[t, k] is negative
//
// The gradient of x is a call of combine_rows (its contract says which).
//
// Shapes    dy [rows, cols]; x [sources, cols]; from and dweights [rows, top]. As combine_rows's.
// Dtypes    dy and x one of f32, bf16, f16; from i32 or i64; dweights f32.
// Layout    As combine_rows's. Aliasing  dweights overlaps nothing else of the call.
// Numerics  Products and sums in fp32; a sum of n terms may be off by 8 * 2^-24 sqrt(n) of their magnitudes.
// NaN, Inf  As the sums have them.
// Same bits Always on one device, whatever the number of threads.
// Cost      Two operations for each column and source. dy once, and x a row for each source.
// Streams   As gemm's.
// Errors    As combine_rows's.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct CombineRowsBackwardArgs {
  TensorView x;
  TensorView from;
  TensorView dy;
  TensorView dweights;  // written
};

Status combine_rows_backward(const CombineRowsBackwardArgs& args, const Stream& stream);

namespace ops::combine_rows_backward {
using Args = CombineRowsBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
