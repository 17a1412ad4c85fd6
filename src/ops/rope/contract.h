// rope: rotary position embedding. Pairs of elements of every head of q, and of k in the same call, are turned by the
// angle of their position, whose cosine and sine a table holds.
//
//   y[a] = x[a] cos[p,i] - x[b] sin[p,i]      y[b] = x[b] cos[p,i] + x[a] sin[p,i]      p = positions[n,s], or offset +
//   s
//
// for i from 0 to rotary / 2 - 1, with (a, b) = (i, i + rotary / 2), or with `interleaved` (2 i, 2 i + 1). Elements
// from `rotary` on are copied. With `inverse` sin counts as -sin: the gradient, and the way back.
//
// Shapes    q, q_out [batch, length, heads, dim]; k, k_out [batch, length, kv_heads, dim]; cos, sin [rows, rotary / 2];
//           positions [batch, length]. Sizes from 0, dim from 1 to 1024, rotary even, from 2 to dim. k comes with
//           k_out and may be left out (rank 0), as may positions. Any two numbers of heads go together.
// Dtypes    q, k and their results the same one of f32, bf16, f16; cos and sin f32; positions i64 or i32.
// Layout    The last dimension is contiguous; the others of q, k and their results may have any strides and order, so
//           [batch, heads, length, dim] and packed qkv are views; those of positions any strides, 0 among them.
// Aliasing  q_out may be q and k_out k, with the same strides; otherwise no output overlaps anything else of the call.
// Numerics  In fp32, rounded once: |y - exact| <= 2 u (|x[a] cos| + |x[b] sin|) + half an ulp, u = 2^-24, of the table
//           as it is stored. Copied elements keep their bits.
// NaN, Inf  As the formulas say, in the two elements of a pair.
// Same bits Always, whatever the number of threads.
// Cost      3 FLOP per element that is turned; every operand once.
// Streams   As gemm's.
// Backward  rope with the other `inverse`, of the gradients of q_out and k_out; saves cos, sin and positions, which
//           have no gradient.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, an offset at which the table ends
//           too early, with the values.
// Positions That the table does not have: on a processor kInvalidArgument, which names place and value, and nothing is
//           written. On a GPU, where a call does not wait for them to be read, all elements of that token that are
//           turned are NaN, its others are copied, and nothing outside of the table is read.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct RopeArgs {
  TensorView q;
  TensorView q_out;  // written
  TensorView cos, sin;
  TensorView k;          // rank 0: none
  TensorView k_out;      // written; given where k is
  TensorView positions;  // rank 0: offset and up
  std::int64_t offset = 0;
  bool interleaved = false;
  bool inverse = false;
};

Status rope(const RopeArgs& args, const Stream& stream);

// How often pair i turns per position, f[i] = base^(-2 i / rotary), and how a longer context changes that.
enum class RopeScaling : std::uint8_t {
  kNone,
  kLinear,  // f / factor
  // Waves of more than original_length / low_factor positions are stretched by `factor`, those of less than
  // original_length / high_factor stay, and between the two the frequency goes from one to the other (Llama 3).
  kLlama3,
  // Pairs that turn less than beta_slow times in original_length positions are stretched by `factor`, those that turn
  // more than beta_fast times stay, with a ramp over the pairs between; cos and sin are times `attention`.
  kYarn
};
struct RopeFrequencies {
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double original_length = 8192;
  double low_factor = 1, high_factor = 4;
  double beta_fast = 32, beta_slow = 1;
  double attention = 0;  // 0: 0.1 ln(factor) + 1
};

// The frequencies of all pairs, in radians per position.
Result<std::vector<double>> rope_frequencies(std::int64_t rotary, const RopeFrequencies& how);
// Fills cos and sin, both f32 [rows, rotary / 2] in host memory, for the positions from 0: in fp64, rounded once.
Status rope_table(const RopeFrequencies& how, const TensorView& cos, const TensorView& sin);

namespace ops::rope {
using Args = RopeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
