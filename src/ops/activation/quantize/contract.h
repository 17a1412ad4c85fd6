// activation_quantize: the result of activation in 8-bit floats with scales, and the same of its transpose, without
// storing it in between.
//
//   y[i,j] = p[i] f(x[i,j]) u[i,j]     as activation/contract.h says, in fp32
//   scale(g) = rule(max over the finite elements y of group g of |y|)     q = round(clamp(y / scale(g), +-fmax))
//
// so that y ~ q * scale; ridge/scaling.h says which elements are a group, how scales lie in memory, and the rules.
//
// Shapes    x, up, probs, mask as activation's; rows from 0, cols from 1. q [rows, cols] with `scale` along the
//           columns; q_t [cols, rows] is what quantising y^T gives, with its own scales `scale_t`. Either pair may be
//           left out (rank 0), not both.
// Dtypes    x and up the same one of f32, bf16, f16; probs f32; mask u8; q and q_t e4m3fn (fmax 448) or e5m2 (fmax
//           57344); scales f32, for kMx E8M0.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, each operand's
//           its own: x and up may be the halves of one matrix. Aliasing  No output may overlap an input or another
//           output.
// Numerics  y in fp32 and rounded once, to the code: unlike quantize of what activation stores, nothing is rounded to
//           the dtype of x. An element is off by what activation's row model says (e^x by 4 steps of fp32, Phi by
//           2^-22), and so is the largest magnitude of its group. With kExact the quotient has besides the error of
//           the scale, two roundings and that of the largest magnitude; either of two codes is right where the quotient
//           is so close to the middle between them. With a power of two the scale is exact unless the largest magnitude
//           is so close to where the rule changes that either of two scales is right, and the codes of either.
//           A group whose elements may all vanish in fp32 may have the scale of zeros, 1.
// Random    As quantize's: `random` points to {seed, offset} in memory of the stream's device; element i of a copy
//           (row-major; of the transposed copy i + rows * cols) takes word offset + i.
// Given     As quantize's: `amax` points to a largest magnitude in memory of the stream's device, kTensor only; 0
//           leaves the scale to y. `found` is written then: the largest magnitude of y, infinity where y is not finite.
// NaN, Inf  Of y: do not count for the scale. NaN becomes NaN; Inf becomes Inf in e5m2 and NaN in e4m3fn. A group
//           without finite elements has scale 1. A row whose mask is 0 is 0, whatever its inputs hold.
// Same bits Always, whatever the number of threads.
// Cost      activation's FLOP, and 2 per element and copy; every operand once. (Scales over a whole tensor or row are
//           known only at its end: the inputs are read and y is computed twice, unless `amax` is given.)
// Backward  None: activation_backward takes the gradient of y, which frameworks pass through the rounding.
// Errors    kInvalidArgument: as activation's and quantize's.
//
// alpha, limit   Scalars of the call, of clamped_silu alone.
#pragma once

#include <cstdint>

#include "ops/activation/contract.h"
#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ActivationQuantizeArgs {
  ActivationArgs forward;   // its y is not written
  TensorView q, scale;      // written; rank 0: not wanted
  TensorView q_t, scale_t;  // written; rank 0: not wanted
  Granularity granularity = Granularity::kVector;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;  // {seed, offset}; null: round to nearest even
  const float* amax = nullptr;            // what the scale is made of; null: y's own largest magnitude
  float* found = nullptr;                 // written where amax is given: y's own largest magnitude
};

Status activation_quantize(const ActivationQuantizeArgs& args, const Stream& stream);

namespace ops::activation_quantize {
using Args = ActivationQuantizeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
