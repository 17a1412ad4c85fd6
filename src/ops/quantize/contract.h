// quantize: a matrix in 8-bit floats with scales, and the same of its transpose, both from the high-precision values.
//
//   scale(g) = rule(max over the finite elements x of group g of |x|)          q = round(clamp(x / scale(g), +-fmax))
//
// so that x ~ q * scale; ridge/scaling.h says which elements are a group, how scales lie in memory, and the rules.
// With `amax` the one scale of the tensor is rule(amax) instead, and x is read once.
//
// Shapes    x [rows, cols], q [rows, cols] with `scale` along the columns; q_t [cols, rows] is what quantising x^T
//           gives, with its own scales `scale_t`: one rounding from x, never a copy of q. Either pair may be left out
//           (rank 0). Any size from 0.
// Dtypes    x f32, bf16, f16; q e4m3fn (fmax 448) or e5m2 (fmax 57344), q_t the same; scales f32, for kMx E8M0.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, the scales'
// too. Aliasing  No output may overlap x or another output. Numerics  x / scale in fp32 (a division, or a product with
//           the rounded reciprocal), one rounding to q. A power-of-two scale is exact, and so is the quotient: q is
//           then the only right code. For kExact the scale may be off by two roundings in fp32, and where the quotient
//           lies within 5 * 2^-24 of the middle between two codes either is right. Nearest even unless `random` is
//           given; beyond fmax elements saturate.
// Random    `random` points to two 64-bit words {seed, offset} in memory of the stream's device: element i of a copy
//           (row-major; of the transposed copy i + rows * cols) rounds up with the probability of the discarded
//           fraction, drawn from word offset + i of the Philox4x32-10 stream `seed`. A graph that is replayed draws
//           anew when the words change; a caller advances the offset by 2 * rows * cols. Equal words give equal bits.
// Given     `amax` points to a largest magnitude, in f32 and memory of the stream's device, that the scale is made of
//           instead of x's own (delayed scaling: that of earlier steps; shards of one matrix: that of all); kTensor
//           only. 0 leaves the scale to x, as without it. Finite elements beyond fmax * scale saturate. `found` is
//           written then: the largest magnitude of x, 0 of no elements, infinity where x holds an infinity or NaN. On a
//           GPU the sign of an amax does not count, and one that is not finite counts as 0.
// NaN, Inf  Do not count for the scale, so the other elements of their group keep their values. NaN becomes NaN; Inf
//           becomes Inf in e5m2 and NaN in e4m3fn, which has no infinity. A group without finite elements has scale 1.
// Same bits Always, whatever the number of threads.
// Cost      2 FLOP per element and copy; traffic: x once, codes and scales of each copy once. (Scales over a whole
//           tensor or row are known only at its end: a kernel that cannot keep it reads x twice.)
// Backward  None: frameworks pass the gradient through.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, no output asked for, kExact with
//           kMx, amax without found or with other scales than kTensor, on a processor an amax that is negative, NaN or
//           infinite; with the values.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct QuantizeArgs {
  TensorView x;
  TensorView q, scale;      // written; rank 0: not wanted
  TensorView q_t, scale_t;  // written; rank 0: not wanted
  Granularity granularity = Granularity::kTensor;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;  // {seed, offset}; null: round to nearest even
  const float* amax = nullptr;            // what the scale is made of; null: x's own largest magnitude
  float* found = nullptr;                 // written where amax is given: x's own largest magnitude
};

Status quantize(const QuantizeArgs& args, const Stream& stream);

namespace ops::quantize {
using Args = QuantizeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
