// combine_rows: rows of the result are sums of rows of x, each with a weight. It is what moves the rows of a mixture of
// experts: to the experts (one source for a row), back from them (a source and a weight for each expert of a token),
// and the gradients of both.
//
//   y[t, :] = sum over k = 0 .. top - 1 with from[t, k] >= 0, in their order, of weights[t, k] * x[from[t, k], :]
//
// Weights are 1 where there are none. A row without sources is 0: rows of padding, and tokens that were dropped.
//
// The gradient of x is a call of the same operator, dx = combine_rows(dy, to / top, weights[to]): `to[s, :]` lists the
// places t * top + k where from is s. That of the weights is combine_rows_backward.
//
// Shapes    x [sources, cols]; from [rows, top]; weights [rows, top]; y [rows, cols]. sources and rows from 0, cols
//           from 1, top from 1 to 64.
// Dtypes    x and y one of f32, bf16, f16; from i32 or i64; weights f32.
// Layout    Columns are contiguous; rows may be any number of elements apart, at least as many as they have. Aliasing y
//           overlaps nothing else of the call.
// Numerics  Products and sums in fp32, one term after the other; y is rounded once. One source without a weight is
//           copied, bit by bit.
// NaN, Inf  As the sums have them. Rows of x that nothing names are not read.
// Same bits Always, whatever the number of threads.
// Cost      Two operations for each element of y and source. y once, from and weights once, and x a row for each
// source. Streams   As gemm's. Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with
//           the values. On a processor a source that is no row of x: the error names its place and value, and nothing
//           is written. On a GPU, where a call returns before it runs, such a source counts for nothing, and nothing is
//           read by it.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct CombineRowsArgs {
  TensorView x;
  TensorView from;
  TensorView weights;  // rank 0: all are 1
  TensorView y;        // written
};

Status combine_rows(const CombineRowsArgs& args, const Stream& stream);

namespace ops::combine_rows {
using Args = CombineRowsArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
