// activation: y = f(x) for every element of a matrix, times a second matrix (a gate: SwiGLU, GEGLU, ReGLU) and times a
// factor of the row.
//
//   y[i,j] = p[i] f(x[i,j]) u[i,j]          u = up, up clamped and 1 more with `clamped_silu`, or 1    p = probs, or 1
//
//   silu          x s(x), s(x) = 1 / (1 + e^-x)           gelu       x Phi(x), Phi the normal distribution
//   gelu_tanh     x s(2 sqrt(2/pi) (x + 0.044715 x^3))    relu       max(x, 0)          relu2   max(x, 0)^2
//   clamped_silu  h s(alpha h), h = min(x, limit); u = clamp(up, -limit, limit) + 1     (GPT-OSS)
//
// Shapes    x, up, y [rows, cols]; probs [rows]; mask [rows]. rows from 0, cols from 1. up, probs and mask may be left
//           out (rank 0). A row whose mask is 0 is 0, whatever its inputs hold.
// Dtypes    x, up and y the same one of f32, bf16, f16; probs f32; mask u8.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= cols apart, each operand's its
//           own: x and up may be the halves of one matrix [rows, 2 cols]. Aliasing  y may not overlap an input; halves
//           of one matrix do not overlap.
// Numerics  In fp32, y rounded once: f(x) is not rounded before the product. What an element may be off by follows from
//           the row model (row_model.cuh): e^x off by 4 steps of fp32 or by 2^-126, Phi by 2^-22.
// NaN, Inf  As the formulas say: NaN gives NaN, f(inf) = inf, silu, gelu and gelu_tanh of -inf are NaN (-inf times 0).
// Same bits Always, whatever the number of threads.
// Cost      About 12 FLOP per element (relu 2, relu2 3) and one each for up and probs; every operand once.
// Streams   As gemm's.
// Backward  backward/contract.h; saves x, up, probs and mask.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, an alpha or a limit that is not
//           finite or a limit that is negative, with the values.
//
// alpha, limit   Scalars of the call, of clamped_silu alone.
#pragma once

#include "ridge/activation_function.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ActivationArgs {
  TensorView x;
  TensorView y;  // written
  ActivationFunction function = ActivationFunction::kSilu;
  TensorView up;     // rank 0: 1
  TensorView probs;  // rank 0: 1
  TensorView mask;   // rank 0: every row counts
  double alpha = 1.702;
  double limit = 7;
};

Status activation(const ActivationArgs& args, const Stream& stream);

namespace ops::activation {
using Args = ActivationArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
