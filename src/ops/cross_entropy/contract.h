// cross_entropy: what rows of logits lose against their targets, and in the same pass what the logits' gradient is.
//
//   x = logits, or soft_cap tanh(logits / soft_cap)        lse[i] = log sum_j exp(x[i,j])      t = targets[i]
//   loss[i] = lse[i] - (1 - s) x[i,t] - s / V sum_j x[i,j] + z lse[i]^2                 s = label_smoothing, z = z_loss
//   dlogits[i,j] = g[i] ((1 + 2 z lse[i]) exp(x[i,j] - lse[i]) - (1 - s) [j = t] - s / V) dx/dlogits
//
// with g = grad_scale, times grad[i] where that is given. Where targets[i] is ignore_index, the row is not read: its
// loss, its lse and its gradient are 0.
//
// Shapes    logits, dlogits [tokens, V]; targets, grad, loss, lse [tokens]. tokens from 0, V from 1. grad, lse and
//           dlogits may be left out (rank 0). Sums and means over tokens are the caller's: they are a sum of loss, and
//           a grad_scale of 1 over the number of targets that count.
// A shard   of the vocabulary has the columns first .. first + V of `whole`: shard_max, shard_sum, shard_target and
//           shard_logits [tokens] are written in the place of loss, lse and dlogits. With m = max_j x[i,j] they are m;
//           sum_j exp(x[i,j] - m), 0 where m is -infinity; x[i,t], 0 where t is in another shard; sum_j x[i,j]. Over
//           all shards M = max m, lse = M + log sum (shard_sum exp(m - M)), and the other two add up, from which
//           loss follows; cross_entropy_backward makes dlogits of a shard from lse.
// Dtypes    logits and dlogits the same one of f32, bf16, f16; targets i64 or i32; the others f32.
// Layout    Columns are contiguous; rows may be any number of elements >= V apart. Aliasing  dlogits may be logits
//           itself, with its strides; otherwise no output overlaps anything else of the call.
// Numerics  In fp32; dlogits is rounded once. What an element may be off by follows from the row model (row_model.cuh).
// NaN, Inf  A logit of -infinity has no probability and a gradient of 0 (masked vocabulary); as a target, or beside
//           label smoothing, it makes the loss infinite. A row with a NaN or +infinity, or of -infinity alone, is NaN:
//           loss, lse and gradient. Other rows keep their values. A soft cap makes infinities finite.
// Same bits Always, whatever the number of threads.
// Cost      About 15 FLOP per element, 20 with dlogits; every operand once.
// Streams   As gemm's.
// Backward  backward/contract.h; saves logits, targets and lse.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, settings out of range, with the
//           values. On a processor a target that is neither ignore_index nor from 0 to V - 1 (`whole` - 1): the error
//           names row and value, and nothing is written. On a GPU, where a call returns before it runs, such a target
//           makes its row NaN (loss, lse, gradient, the statistics of a shard) and nothing is read by it; the other
//           rows keep their values.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

// Scalars of a call: nothing is chosen or kept by them, but by whether there is a soft cap.
struct CrossEntropySettings {
  double label_smoothing = 0;  // from 0 to 1
  double z_loss = 0;           // from 0
  double soft_cap = 0;         // 0: none
  std::int64_t ignore_index = -100;
  double grad_scale = 1;  // of every gradient
  // Of a shard of a vocabulary of `whole` columns, the first; whole of 0: not a shard.
  std::int64_t first = 0, whole = 0;
};

struct CrossEntropyArgs {
  TensorView logits;
  TensorView targets;
  TensorView loss;  // written
  CrossEntropySettings settings;
  TensorView grad;     // rank 0: 1
  TensorView lse;      // written; rank 0: not wanted
  TensorView dlogits;  // written; rank 0: not wanted
  // Written of a shard, all four.
  TensorView shard_max, shard_sum, shard_target, shard_logits;
};

Status cross_entropy(const CrossEntropyArgs& args, const Stream& stream);

namespace ops::cross_entropy {
using Args = CrossEntropyArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
