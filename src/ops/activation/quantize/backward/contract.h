// activation_quantize_backward: the gradients of activation in 8-bit floats with scales, and the same of their
// transpose, without storing them in between.
//
//   dx[i,j] = p[i] dy[i,j] u[i,j] f'(x[i,j])    dup[i,j] = p[i] dy[i,j] f(x[i,j]) u'[i,j]     as activation/backward/
//                                                                                            contract.h says, in fp32
//   d = [dx | dup], which is what a packed matrix [x | up] has; dx alone without a gate
//   scale(g) = rule(max over the finite elements d of group g of |d|)     q = round(clamp(d / scale(g), +-fmax))
//
// so that d ~ q * scale; ridge/scaling.h says which elements are a group, how scales lie in memory, and the rules.
//
// Shapes    dy, x, up [rows, cols], probs, mask [rows]; rows from 0, cols from 1. d [rows, 2 cols] with up, else
//           [rows, cols]. q as d, with `scale` along its columns; q_t is what quantising d^T gives, with its own scales
//           `scale_t`. Either pair may be left out (rank 0), not both. Groups know nothing of halves: where cols is no
//           multiple of their width, one lies in both.
// Dtypes    dy, x and up the same one of f32, bf16, f16; probs f32; mask u8; q and q_t e4m3fn (fmax 448) or e5m2 (fmax
//           57344); scales f32, for kMx E8M0.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, each operand's
//           its own: x and up may be the halves of one matrix. Aliasing  No output may overlap an input or another
//           output.
// Numerics  d in fp32 and rounded once, to the code: unlike quantize of what activation_backward stores, nothing is
//           rounded to the dtype of x. Which codes and scales are right follows from the row model of
//           activation_backward and its errors, as activation_quantize's from activation's.
// Random, Given   As quantize's, of d.
// NaN, Inf  As activation_backward's; those of d do not count for a scale. NaN becomes NaN; Inf becomes Inf in e5m2 and
//           NaN in e4m3fn. A group without finite elements has scale 1. A row whose mask is 0 is 0, whatever its inputs
//           hold. x^2 of relu2 is infinite where fp32 has no number for it, whatever it is multiplied by.
// Same bits Always, whatever the number of threads.
// Cost      activation_backward's FLOP, and 2 per element of d and copy; every operand once. (Scales over a whole
//           tensor or row are known only at its end: the inputs are read and d is computed twice, unless `amax` is
//           given.)
// Backward  None. The gradient of probs is a sum over rows, which activation_backward makes with dx and dup left out.
// Errors    kInvalidArgument: as activation's and quantize's; dy unlike x.
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

struct ActivationQuantizeBackwardArgs {
  TensorView dy;
  ActivationArgs forward;   // its y is not read
  TensorView q, scale;      // written; rank 0: not wanted
  TensorView q_t, scale_t;  // written; rank 0: not wanted
  Granularity granularity = Granularity::kVector;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;  // {seed, offset}; null: round to nearest even
  const float* amax = nullptr;            // what the scale is made of; null: d's own largest magnitude
  float* found = nullptr;                 // written where amax is given: d's own largest magnitude
};

Status activation_quantize_backward(const ActivationQuantizeBackwardArgs& args, const Stream& stream);

namespace ops::activation_quantize_backward {
using Args = ActivationQuantizeBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
