// softmax: the shares of the numbers of a row, their logarithms, or the logarithm of the sum that they are shares of.
//
//   z = scale x        lse[i] = log sum_j exp(z[i,j])
//   form = softmax       y[i,j] = exp(z[i,j] - lse[i])
//   form = log_softmax   y[i,j] = z[i,j] - lse[i]
//   form = logsumexp     lse[i] alone: x is read once and one number of each row written
//
// A call has the one output of its form. An lse beside y would have a gradient of its own, which backward would have to
// add to that of y; a caller that needs both has lse = z[i,j] - y[i,j] of log_softmax, or takes cross_entropy.
//
// Shapes    x, y [rows, cols]; lse [rows]. rows from 0, cols from 1.
// Dtypes    x one of f32, bf16, f16; y that of x, or f32; lse f32.
// Layout    Columns are contiguous; rows may be any number of elements >= cols apart. Aliasing  an output overlaps
//           nothing else of the call.
// Numerics  In fp32, whatever the dtypes, beside the largest z of the row; y is rounded once. What an element may be
//           off by follows from the row model (row_model.cuh).
// NaN, Inf  Where z is -infinity, softmax is 0 and log_softmax -infinity. A row with a NaN or +infinity, or of
//           -infinity alone, is NaN in softmax and log_softmax. logsumexp of a row with a NaN is NaN, else that of one
//           with +infinity is +infinity, and that of -infinity alone is -infinity. Other rows keep their values.
// Same bits Always, whatever the number of threads.
// Cost      About 12 FLOP per element; every operand once. On a GPU rows that do not start on 16 bytes, are no multiple
//           of 16 bytes long or are longer than 256 KiB are read twice, but for logsumexp.
// Streams   As gemm's.
// Backward  backward/contract.h; saves y, and of logsumexp x and lse.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, a scale that is not finite, with
//           the values.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

enum class SoftmaxForm : std::uint8_t { kSoftmax, kLogSoftmax, kLogSumExp };

struct SoftmaxArgs {
  TensorView x;
  TensorView y;    // written, of softmax and log_softmax
  TensorView lse;  // written, of logsumexp
  SoftmaxForm form = SoftmaxForm::kSoftmax;
  double scale = 1;  // a scalar of the call: nothing is chosen or kept by it
};

Status softmax(const SoftmaxArgs& args, const Stream& stream);

namespace ops::softmax {
using Args = SoftmaxArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
