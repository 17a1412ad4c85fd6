// rope_norm: rmsnorm of every head of q and k with rotary position embedding behind it, in one pass.
//
//   n[j] = x[j] rsqrt(mean(x^2) + eps) w[j]        w: q_weight for heads of q, k_weight for those of k; 1 without them
//   y    = n, turned by the angles of its position as rope turns (ridge/ops/rope.h); elements from `rotary` on are n
//
// With `zero_centred` a weight counts as 1 + w.
//
// Shapes    As rope's; q_weight, k_weight [dim], both or neither (rank 0), k_weight where k is.
// Dtypes    As rope's; the weights the same one of q's dtype and f32.
// Layout    As rope's; the weights are contiguous.
// Aliasing  As rope's.
// Numerics  In fp32, from the squares to the turned element, rounded once: n is not rounded. Bounds follow from the
//           reference, whose numbers carry along how far fp32 may be off.
// NaN, Inf  A NaN or an infinity in a head makes the elements of that head NaN or, of an infinity, 0 and NaN.
// Same bits Always, whatever the number of threads.
// Cost      7 FLOP per element; every operand once.
// Streams   As gemm's.
// Backward  rope_norm_backward; saves q, k, the weights, cos, sin and positions. cos and sin have no gradient.
// Errors    As rope's, and kInvalidArgument for a weight without the other, of another length or dtype, zero_centred
//           without weights, an eps that is negative or not finite. Positions that the table does not have as rope's:
//           on a GPU turned elements of that token are NaN.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RopeNormArgs {
  TensorView q;
  TensorView q_out;  // written
  TensorView cos, sin;
  TensorView k;                   // rank 0: none
  TensorView k_out;               // written; given where k is
  TensorView q_weight, k_weight;  // rank 0: 1
  TensorView positions;           // rank 0: offset and up
  std::int64_t offset = 0;
  bool interleaved = false;
  bool zero_centred = false;
  double eps = 1e-6;
};

Status rope_norm(const RopeNormArgs& args, const Stream& stream);

namespace ops::rope_norm {
using Args = RopeNormArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
