// rmsnorm_quantize: the result of rmsnorm in 8-bit floats with scales, and the same of its transpose, without storing
// it in between.
//
//   h = x, or x + residual rounded once to the dtype        rstd[i] = 1 / sqrt(sum_j h[i,j]^2 / cols + eps)
//   y[i,j] = h[i,j] rstd[i] w[j]                            w = weight, or 1 + weight with `zero_centred`, or 1
//   scale(g) = rule(max over the finite elements y of group g of |y|)     q = round(clamp(y / scale(g), +-fmax))
//
// so that y ~ q * scale; ridge/scaling.h says which elements are a group, how scales lie in memory, and the rules.
//
// Shapes    x, residual, weight, sum and rstd as rmsnorm's, but that rstd is written always; rows from 0, cols from 1.
//           q [rows, cols] with `scale` along the columns; q_t [cols, rows] is what quantising y^T gives, with its own
//           scales `scale_t`. Either pair may be left out (rank 0), not both.
// Dtypes    x, residual and sum the same one of f32, bf16, f16; weight that one or f32; rstd f32; q and q_t e4m3fn
//           (fmax 448) or e5m2 (fmax 57344); scales f32, for kMx E8M0.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= cols apart, each operand's its
//           own. Aliasing  No output may overlap an input or another output.
// Numerics  sum and rstd as rmsnorm's. y is made in fp32 of h and rstd as they are stored, in two products, and rounded
//           once, to the code. Which codes and scales are right follows from the row model and its errors, as
//           activation_quantize's: near the middle of two codes either, and near where a power-of-two rule changes
//           either scale with its codes.
// Random, Given   As quantize's.
// NaN, Inf  As rmsnorm's; those of y do not count for a scale. NaN becomes NaN; Inf becomes Inf in e5m2 and NaN in
//           e4m3fn. A group without finite elements has scale 1.
// Same bits Always, whatever the number of threads.
// Cost      4 FLOP per element (5 with residual), and 2 per element and copy; every operand once. (On a GPU h is read
//           twice, once for rstd; for scales over a whole tensor or row, which are known only at its end, three times.)
// Backward  None: rmsnorm_backward takes the gradient of y, which frameworks pass through the rounding.
// Errors    kInvalidArgument: as rmsnorm's and quantize's; rstd of rank 0.
//
// eps       A scalar of the call.
#pragma once

#include <cstdint>

#include "ops/rmsnorm/contract.h"
#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RmsnormQuantizeArgs {
  RmsnormArgs forward;      // its y is not written; its rstd must be given
  TensorView q, scale;      // written; rank 0: not wanted
  TensorView q_t, scale_t;  // written; rank 0: not wanted
  Granularity granularity = Granularity::kVector;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;  // {seed, offset}; null: round to nearest even
  const float* amax = nullptr;            // what the scale is made of; null: y's own largest magnitude
  float* found = nullptr;                 // written where amax is given: y's own largest magnitude
};

Status rmsnorm_quantize(const RmsnormQuantizeArgs& args, const Stream& stream);

namespace ops::rmsnorm_quantize {
using Args = RmsnormQuantizeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
