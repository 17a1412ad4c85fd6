// cross_entropy_backward: the gradient of the logits of cross_entropy, from its log-sum-exp.
//
//   dlogits[i,j] = g[i] ((1 + 2 z lse[i]) exp(x[i,j] - lse[i]) - (1 - s) [j = t] - s / V) dx/dlogits
//
// with g[i] = grad_scale dloss[i], and everything else as in cross_entropy's contract. Where targets[i] is
// ignore_index, it is 0.
//
// Shapes    logits, dlogits [tokens, V]; dloss, targets, lse [tokens]. Of a shard, whose columns are first .. first + V
//           of `whole`, lse is that of all shards, and V in the formula is `whole`.
// Dtypes    logits and dlogits the same one of f32, bf16, f16; targets i64 or i32; dloss and lse f32.
// Layout, aliasing, NaN and Inf, same bits, streams, errors   As cross_entropy's. dlogits may be logits itself.
// Numerics  In fp32; dlogits is rounded once. lse is taken as it is stored: its rounding is no error of this operator.
//           Bounds follow from the row model (row_model.cuh).
// Cost      About 15 FLOP per element; every operand once.
#pragma once

#include "ops/cross_entropy/contract.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct CrossEntropyBackwardArgs {
  TensorView dloss;
  TensorView logits;
  TensorView targets;
  TensorView lse;
  TensorView dlogits;  // written
  CrossEntropySettings settings;
};

Status cross_entropy_backward(const CrossEntropyBackwardArgs& args, const Stream& stream);

namespace ops::cross_entropy_backward {
using Args = CrossEntropyBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
