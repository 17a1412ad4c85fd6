// grouped_gemm_fp8: products of groups of rows, the experts of a mixture, in 8-bit floats with scales. Where groups
// begin is read on the device. What grouped_quantize writes is what it reads.
//
//   rows o[g] .. o[g+1] of the call are those of group g, o = offsets
//   along rows   C[r,j] = sum_p A[r,p] sA(r,p) B[g][j,p] sB(g,j,p)           for every row r of group g
//                (forward: A = x, B = w; gradient of x: A = dy, B = w transposed)
//   along sums   C[g][i,j] (+)= sum over rows r of group g of A[i,r] sA(i,r) B[j,r] sB(j,r)
//                (gradient of w: A = dy transposed, B = x transposed)
//
// Shapes    along rows: A [rows, k], B [groups, n, k], C [rows, n]. Along sums: A [m, rows], B [n, rows], C [groups, m,
//           n]: what is summed over is contiguous in both. offsets [groups + 1]. Sizes from 0, groups from 1. Rows of C
//           before o[0] and from o[groups] on are 0. An empty group has no rows, and its C[g] is 0.
// Scales    f32, by `scaling`:
//             kBlock   along rows A 1x128, scale_a [ceil(k/128), rows]; B 128x128, scale_b [groups, ceil(n/128),
//                      ceil(k/128)]. Along sums both 1x128 along the rows, scale_a [ceil(rows/128), m], scale_b
//                      [ceil(rows/128), n]
//             kRow     one for each row of A and row of B. Along rows scale_a [rows], scale_b [groups, n]; along sums,
//                      of each group apart, scale_a [groups, m], scale_b [groups, n]
//             kTensor  one for the operand of each group, scale_a [groups], scale_b [groups]
//           Along sums every offset is a multiple of 128 (`padded` of grouped_quantize), so that no step is of two
//           groups. Scales are zero or at least 2^-126 in magnitude: what is smaller may be flushed or rounded.
// Index     index_a [rows], i32, along rows: row r of A is A[index_a[r], :], and its scales are those of that row: A
//           and, by kBlock and kRow, scale_a have any number of rows, those of tokens that experts share. A negative
//           one stands for a row of zeros.
// Dtypes    A and B e4m3fn or e5m2, the same or one each; C bf16, f16 or f32; offsets i32 or i64.
// Layout    Columns are contiguous (stride 1), and so are vectors; rows, of scales too, may be any number of elements
//           >= their length apart, and so may the matrices of a stack; rows of a stack B may lie between those of
//           other matrices. Aliasing  C may not overlap anything else.
// Numerics  As gemm_fp8's kPromoted: sums of 128 products in the matrix unit, which keeps about 14 bits of every
//           addend, then in fp32, or more exact; C is rounded once. The length of a sum is k, or the rows of its group.
// accumulate  Along sums: C += the sums, added in fp32 and rounded once. An empty group leaves its C[g] as it is.
// NaN, Inf  As the sums say, within a group: what other groups, and rows of no group, hold changes nothing. A scale
//           that is NaN or infinite makes all it scales so.
// Same bits Always, whatever the number of threads.
// Cost      2 k n FLOP for each row (along sums 2 m n); the rows of groups, or those that an index names, B, scales
//           and C once.
// Streams   As gemm's; offsets are read by the kernel, in the stream's order.
// Backward  None of the codes: the gradients are calls of this operator, of a quantised dC (docs/operators).
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values. On a processor
//           offsets that fall, leave 0 .. rows or, along sums, are no multiple of 128, and for a row of a group an
//           index from the number of rows on: the error names place and value, and nothing is written. A GPU takes an
//           offset that is less than one before it for that one, one outside of 0 .. rows for the nearer end and, along
//           sums, every offset for the multiple of 128 below it, and such an index for a row of zeros.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

enum class GroupedFp8Scaling : std::uint8_t { kBlock, kRow, kTensor };

struct GroupedGemmFp8Args {
  TensorView a, b, scale_a, scale_b, offsets;
  TensorView c;  // written
  bool along_sums = false;
  bool accumulate = false;
  GroupedFp8Scaling scaling = GroupedFp8Scaling::kBlock;
  TensorView index_a;  // rank 0: rows lie where they are
};

Status grouped_gemm_fp8(const GroupedGemmFp8Args& args, const Stream& stream);

namespace ops::grouped_gemm_fp8 {
using Args = GroupedGemmFp8Args;  // what add_op generates the entry point from
}

}  // namespace ridge
