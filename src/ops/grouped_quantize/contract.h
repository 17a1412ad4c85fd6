// grouped_quantize: what the products of groups read, in 8-bit floats with scales: rows that belong to groups, the
// experts of a mixture, each group at a multiple of `align` rows, and the same of the transpose. Where groups begin is
// read on the device.
//
//   rows o[g] .. o[g+1] of m are those of group g, o = offsets, and n[g] their number
//   p[0] = 0, p[g+1] = p[g] + n[g] rounded up to a multiple of align                                     (padded)
//   y[p[g] + i,:] = m[o[g] + i,:] for i < n[g]; every other row of y is 0        q, scale, q_t, scale_t = quantize(y)
//
// so that a block of scales along the rows of y is of one group, and q, q_t and p are what a product of groups takes.
// m is made of x by `of`, with a factor f of each row (probs; 1 where it is left out), and rounded to the dtype of x:
//
//   kRows             m = x; with an index m[r,:] = x[index[r],:]
//   kSwiglu           m = f silu(a) b                             x = [a | b] [rows, 2 cols]
//   kSwigluBackward   m = [f dy b silu'(a) | f dy silu(a)]        x = [a | b] [rows, cols], dy [rows, cols / 2]
//
// so that codes are those of what activation and its backward store, which is not stored. The gradient of the factors
// may be asked for with them, as activation_backward makes it:
//
//   dprobs[r] = sum_j dy[r,j] silu(a[r,j]) b[r,j] for the rows r of all groups, 0 for others
//
// Index     index [rows], i32, with kRows: x has any number of rows, tokens that experts share. A negative one stands
//           for a row of zeros.
// Shapes    x as above, offsets [groups + 1], probs and dprobs [rows], y [capacity, cols], padded [groups + 1]. The
//           capacity is what no offsets exceed, grouped_quantize_capacity(rows, groups, align). Of y, q
//           [capacity, cols] and q_t [cols, capacity] with their scales, as quantize has them, but for scale_t of kRow;
//           either pair may be left out (rank 0). Sizes from 0, groups from 1; align 16, 32, 64 or 128. With `own_rows`
//           q and its scales are of m where its rows lie, those of no group 0: q [rows, cols]. Products along the rows
//           take groups that begin anywhere, so that they read q with `offsets` and q_t with `padded`. With both
//           copies, kVector or kMx, align 128.
// Dtypes    x and dy the same one of f32, bf16, f16; probs and dprobs f32; index i32; offsets i32 or i64, padded the
//           same; codes and scales as quantize's.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, the scales'
//           too; offsets, probs, dprobs and padded contiguous. Aliasing  No output may overlap an input or another
//           output.
// Scales    Of every granularity whose groups of elements end where a group of rows does: `align` is a multiple of 128
//           with q_t and kVector, with q_t and kRow and with kBlock, of 32 with q_t and kMx. A row of q_t has with kRow
//           a scale for each group, scale_t [groups, cols]: that of the elements p[g] .. p[g+1] of the row. kTensor has
//           one scale for all groups. Rows of no group count for no scale. Where all of a scale's elements are 0, or
//           there is none, padding or not, it is 1, and codes of 0 are 0.
// Numerics  What is made of x is computed in fp32 as activation does it, and rounded to the dtype of x: an element that
//           is as close to the middle of two numbers of that as its error in fp32 may be either. dprobs is summed in
//           fp32.
// NaN, Inf  As activation's of what is made, and as quantize's of y. Rows of no group are never looked at.
// Random, Given   As quantize's, of y: random words count its elements, with `own_rows` those of m for q.
// Same bits Always, whatever the number of threads.
// Cost      2 FLOP per element of y and copy, 14 more of kSwiglu and of kSwigluBackward, 3 of dprobs for an element of
//           dy; traffic: x and dy once, codes and scales of each copy once.
// Streams   As quantize's; offsets are read by the kernel, in the stream's order.
// Backward  None: frameworks pass the gradient through.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, an align that is none of these or
//           too small for the scales, index, dy, probs or dprobs that `of` does not have, dprobs without probs, an odd
//           number of columns of two halves, own_rows without what goes with it, a capacity beyond i32 with offsets of
//           that, and what quantize refuses; with the values. On a processor offsets that fall or leave 0 .. rows, and
//           for a row of a group an index from the number of rows of x on: the error names place and value, and nothing
//           is written. A GPU takes an offset that is less than one before it for that one, one outside of 0 .. rows
//           for the nearer end, and such an index for a row of zeros.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

enum class GroupedQuantizeOf : std::uint8_t { kRows, kSwiglu, kSwigluBackward };

struct GroupedQuantizeArgs {
  TensorView x, offsets;
  TensorView index;  // rank 0: the rows of m are those of x
  GroupedQuantizeOf of = GroupedQuantizeOf::kRows;
  TensorView dy;            // of kSwigluBackward
  TensorView probs;         // rank 0: 1
  bool own_rows = false;    // q lies as the rows of m do
  TensorView padded;        // written
  TensorView dprobs;        // written; of kSwigluBackward with probs; rank 0: not wanted
  TensorView q, scale;      // written; rank 0: not wanted
  TensorView q_t, scale_t;  // written; rank 0: not wanted
  std::int64_t align = 128;
  Granularity granularity = Granularity::kVector;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;  // {seed, offset}; null: round to nearest even
  const float* amax = nullptr;            // what the scale is made of; null: the largest magnitude of y
  float* found = nullptr;                 // written where amax is given: the largest magnitude of y
};

// Rows of y: the most that padding makes of so many rows, a multiple of align.
constexpr std::int64_t grouped_quantize_capacity(std::int64_t rows, std::int64_t groups, std::int64_t align) {
  return (rows + groups * (align - 1)) / align * align;
}

Status grouped_quantize(const GroupedQuantizeArgs& args, const Stream& stream);

namespace ops::grouped_quantize {
using Args = GroupedQuantizeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
