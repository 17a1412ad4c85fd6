// adamw: one step of AdamW for one tensor, in place: the moments, the decay and the new weights in one pass.
//
//   g = factor grad                              -g with `maximize`
//   m = exp_avg + (g - exp_avg)(1 - beta1)       v = beta2 exp_avg_sq + (1 - beta2) g^2
//   p = w (1 - lr weight_decay) - (lr / correction1) m / (sqrt(v / correction2) + eps)
//
// where w is `master`, or `param` where there is none; correction1 = 1 - beta1^step, correction2 = 1 - beta2^step.
// Written: exp_avg = m, exp_avg_sq = v, master = p and param = p, each rounded to its dtype once: p is made of m and v
// before they are rounded.
//
// Shapes    param, grad, exp_avg, exp_avg_sq, master [count]; factor, skip [1]. count from 0. master, factor and skip
//           may be left out (rank 0). A skip that is not 0 leaves everything as it is, whatever the gradient holds.
// Dtypes    param f32, bf16, f16; grad that one or f32; exp_avg and exp_avg_sq the same one of f32 and bf16; master,
//           factor and skip f32.
// Layout    Contiguous. Aliasing  Nothing may overlap anything else.
// Numerics  In fp32. The six numbers that are made of scalars alone (1 - beta1, beta2, 1 - beta2, 1 - lr weight_decay,
//           lr / correction1, 1 / sqrt(correction2)) are made in fp64 and rounded to fp32. What an element may be off
//           by follows from the row model (row_model.cuh).
// NaN, Inf  As the formulas say: an element whose gradient is NaN or infinite is NaN from then on. Give `skip` what a
//           loss scaler found.
// Same bits Always, whatever the number of threads.
// Cost      About 16 FLOP per element; every input and output once.
// Streams   As gemm's.
// Backward  None.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, a scalar that is not finite or
//           out of its range (lr, eps, weight_decay from 0; beta1, beta2 from 0 to below 1; step from 1), with the
//           values.
//
// All numbers are scalars of the call: nothing is chosen or kept by them.
#pragma once

#include <span>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct AdamwArgs {
  TensorView param, exp_avg, exp_avg_sq;  // read and written
  TensorView grad;
  TensorView master;  // read and written; rank 0: none
  TensorView factor;  // of the gradient: what undoes a loss scale, or clips; rank 0: 1
  TensorView skip;    // rank 0: 0
  bool maximize = false;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  double step = 1;  // of this step, counted from 1
};

Status adamw(const AdamwArgs& args, const Stream& stream);
// The same for many tensors, none of which may overlap another's. All are checked before the first is stepped. On a GPU
// a launch takes dozens of them; the bits are those of single calls.
Status adamw(std::span<const AdamwArgs> args, const Stream& stream);

namespace ops::adamw {
using Args = AdamwArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
