// rescale: x[i,j] = factor[i] x[i,j] in place; rows whose factor is 1 are neither read nor written.
//
// For a gradient that was made before it was known what it is to be multiplied with, mostly 1: the factor is read where
// the work is done, so nothing waits for it.
//
// Shapes    x [rows, cols]; factor [rows], or [1]: of all rows. rows from 0, cols from 1.
// Dtypes    x f32, bf16, f16; factor f32.
// Layout    Columns of x are contiguous (stride 1); rows may be any number of elements >= cols apart. Aliasing  factor
//           may not overlap x.
// Numerics  The product in fp32, rounded once.
// NaN, Inf  As the formula says: 0 times an infinity is NaN. Under a factor of 1 all stay as they are.
// Same bits Always, whatever the number of threads.
// Cost      1 FLOP per element; x read and written once, where the factor is not 1.
// Streams   As gemm's.
// Backward  None.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RescaleArgs {
  TensorView factor;
  TensorView x;  // read and written
};

Status rescale(const RescaleArgs& args, const Stream& stream);

namespace ops::rescale {
using Args = RescaleArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
