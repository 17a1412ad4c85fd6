// route: the router of a mixture of experts. Of each token's logits it makes scores, chooses `top` experts, and gives
// each of them a weight.
//
//   s[t, e] = softmax of row t, or sigmoid of each logit                   (order kScoreFirst)
//   experts[t, :] = the `top` experts with the largest s[t, e] + bias[e], in falling order
//   weights[t, k] = scale * s[t, experts[t, k]], with renormalize / (1e-20 + their sum over k)
//
// With kTopFirst the choice is by logits[t, e] + bias[e], and s is the softmax of the chosen logits alone, or their
// sigmoid. The bias is never in the weights. Of `groups` groups of experts e / (experts / groups), only the experts of
// the `group_top` best ones can be chosen: those with the largest sum of their two best numbers (one in a group of
// one).
//
// Shapes    logits [tokens, experts]; bias [experts]; weights, experts [tokens, top]. tokens from 0, experts from 1 to
//           4096, top from 1 to 64 and at most what group_top groups have; groups divides experts.
// Dtypes    logits one of f32, bf16, f16; bias and weights f32; experts i32.
// Layout    Columns are contiguous; rows may be any number of elements apart, at least as many as they have. Aliasing
//           weights and experts overlap nothing else of the call.
// Choice    Is the same for every right kernel. Numbers that are compared are numbers of fp32, ties go to the lower
//           expert or group, and -0 equals 0. Without bias and groups, and with kTopFirst, they are the logits as they
//           are stored, whose order is that of the scores. Else they are the scores as fp32 has them: the number
//           nearest to the exact score. One that is within 2^-44 of itself from the middle of two numbers may be
//           either; equal logits of a row have equal scores. Score plus bias, and the sum of two, are rounded to fp32.
//           With kTopFirst logit plus bias is, too.
// Numerics  Weights in fp32, with the sum of k terms in any order. What one may be off by follows from the numbers of
//           ops/row_check.h.
// NaN, Inf  In the choice, a NaN (of a logit, or with a bias) is below every number, -infinity too, and is chosen where
//           no other expert is left among those that can be; a group counts it as -infinity. Other experts are compared
//           as if it were not there: the softmax of the choice leaves it out, and where the largest logit is infinite
//           all that equal it share the sum. Weights are as the formulas have them: a softmax that reads a NaN,
//           +infinity or nothing but -infinity is NaN. No expert is out of range or named twice, whatever the logits
//           are.
// Same bits Always on one device, whatever the number of threads.
// Cost      About 15 operations for each logit; every operand once.
// Streams   As gemm's.
// Backward  backward/contract.h; saves logits and experts. bias has no gradient.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, settings that do not fit, with
//           the values.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

enum class RouteScore : std::uint8_t { kSoftmax, kSigmoid };
enum class RouteOrder : std::uint8_t { kScoreFirst, kTopFirst };

struct RouteSettings {
  RouteScore score = RouteScore::kSoftmax;
  RouteOrder order = RouteOrder::kScoreFirst;
  std::int64_t groups = 1, group_top = 1;
  bool renormalize = false;
  double scale = 1;  // a scalar of the call
};

struct RouteArgs {
  TensorView logits;
  TensorView bias;     // rank 0: none
  TensorView weights;  // written
  TensorView experts;  // written
  RouteSettings settings;
};

Status route(const RouteArgs& args, const Stream& stream);

namespace ops::route {
using Args = RouteArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
