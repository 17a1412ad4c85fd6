// rope_norm_backward: the gradients of rope_norm, from one read of the gradients of its results and of q and k.
//
//   g  = the gradient of a result, turned back by the angles of its position
//   r  = rsqrt(mean(x^2) + eps)        c = r^2 mean(g w x)
//   dx[j] = (g[j] w[j] - c x[j]) r     dw[j] = sum over tokens and heads of g[j] x[j] r
//
// x and w are q and q_weight, or k and k_weight; with `zero_centred` a weight counts as 1 + w.
//
// Shapes    dq_out, q, dq [batch, length, heads, dim]; dk_out, k, dk [batch, length, kv_heads, dim], all or none; cos,
//           sin, positions and the weights as rope_norm's; dq_weight, dk_weight [dim], given where the weights are.
// Dtypes    As rope_norm's; every gradient has the dtype of what it is of.
// Layout    As rope_norm's.
// Aliasing  dq may be dq_out or q, and dk dk_out or k, with the same strides; otherwise no output overlaps anything
// else. Numerics  In fp32, every output rounded once. The gradients of the weights add up in fp32 in an order that
//           depends on shapes and device alone. Bounds follow from the reference.
// NaN, Inf  As the formulas say: within a head, and in the columns of the gradients of the weights.
// Same bits Always, whatever the number of threads.
// Cost      16 FLOP per element; every operand once.
// Streams   As gemm's.
// Errors    As rope_norm's, and kInvalidArgument for a gradient that is missing or not wanted. Positions that the table
//           does not have: on a GPU the token's head is NaN, and so are the gradients of the weights.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RopeNormBackwardArgs {
  TensorView dq_out, q;
  TensorView dq;  // written
  TensorView cos, sin;
  TensorView dk_out, k;             // rank 0: none
  TensorView dk;                    // written; given where k is
  TensorView q_weight, k_weight;    // rank 0: 1
  TensorView dq_weight, dk_weight;  // written; given where the weights are
  TensorView positions;             // rank 0: offset and up
  std::int64_t offset = 0;
  bool interleaved = false;
  bool zero_centred = false;
  double eps = 1e-6;
};

Status rope_norm_backward(const RopeNormBackwardArgs& args, const Stream& stream);

namespace ops::rope_norm_backward {
using Args = RopeNormBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
