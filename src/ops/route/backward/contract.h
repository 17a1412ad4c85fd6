// route_backward: the gradient of route's logits. The choice itself has none.
//
//   dlogits[t, e] = sum over k of dweights[t, k] * d weights[t, k] / d logits[t, e]             of the experts as given
//
// With g[t, k], the gradient of the score of choice k (scale * dweights, with renormalize through the division):
//
//   sigmoid                  dlogits[t, experts[t, k]] = g[t, k] s (1 - s), 0 elsewhere
//   softmax, kScoreFirst     dlogits[t, e] = s[t, e] (g of e, 0 where it is not chosen - sum over k of g[t, k] s[t, k])
//   softmax, kTopFirst       the same over the chosen experts alone, 0 elsewhere
//
// An expert that is named twice counts twice. Losses that balance experts or keep logits small have gradients of their
// own, which a caller adds: nothing of the choice is in them.
//
// Shapes    As route's; dlogits is as logits, dweights and experts as route writes them. So are dtypes, layout and
//           streams; dlogits overlaps nothing else of the call.
// Numerics  In fp32; dlogits is rounded once. Bounds follow from the row model in reference.cpp.
// NaN, Inf  As the formulas have them.
// Same bits Always on one device, whatever the number of threads.
// Cost      About 15 operations for each logit; every operand once.
// Errors    As route's. On a processor an expert that is none: the error names its place and value, and nothing is
//           written. On a GPU, where a call returns before it runs, such an expert counts for nothing.
#pragma once

#include "ops/route/contract.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RouteBackwardArgs {
  TensorView logits;
  TensorView experts;
  TensorView dweights;
  TensorView dlogits;      // written
  RouteSettings settings;  // groups and group_top are not read
};

Status route_backward(const RouteBackwardArgs& args, const Stream& stream);

namespace ops::route_backward {
using Args = RouteBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
