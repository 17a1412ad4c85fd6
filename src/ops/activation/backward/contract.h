// activation_backward: the gradients of activation, from one read of dy and of what the forward call read.
//
//   dx[i,j] = p[i] dy[i,j] u[i,j] f'(x[i,j])      dup[i,j] = p[i] dy[i,j] f(x[i,j]) u'[i,j]
//   dprobs[i] = sum_j dy[i,j] f(x[i,j]) u[i,j]
//
// Shapes    dy, x, up, dx, dup [rows, cols]; probs, mask, dprobs [rows]. What the forward call left out is left out
//           here; of dx, dup and dprobs any may be, but not all. The gradients of a row whose mask is 0 are 0.
//           f' of relu and relu2 is 0 at 0; clamped_silu has no gradient of what is cut off (x above limit, up outside
//           of -limit to limit; NaN in up).
// Dtypes    dy, x, up, dx and dup the same one of f32, bf16, f16; probs and dprobs f32; mask u8.
// Layout    As activation's; dx and dup may be the halves of one matrix. Aliasing  No output may overlap an input or
//           another output.
// Numerics  In fp32, every output rounded once. Bounds follow from the row model (row_model.cuh).
// NaN, Inf  As the formulas say: f' of silu, gelu and gelu_tanh is NaN at both infinities (infinity times 0).
// Same bits Always, whatever the number of threads.
// Cost      About 20 FLOP per element (relu 3, relu2 4), and 3 with a gate; every operand once.
// Errors    kInvalidArgument: as activation's; dup without up, dprobs without probs, no output at all.
#pragma once

#include "ops/activation/contract.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ActivationBackwardArgs {
  TensorView dy;
  ActivationArgs forward;  // its y is not read
  TensorView dx;           // written; rank 0: not wanted
  TensorView dup;          // written; rank 0: not wanted
  TensorView dprobs;       // written; rank 0: not wanted
};

Status activation_backward(const ActivationBackwardArgs& args, const Stream& stream);

namespace ops::activation_backward {
using Args = ActivationBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
