// grouped_gemm: products of many matrices that share one long operand, the rows of which belong to groups: the experts
// of a mixture. Where groups begin is read on the device, so that a router's counts never travel to the host.
//
//   rows o[g] .. o[g+1] of A and C are those of group g, o = offsets
//   along rows     C[r,:] = A[r,:] op(B[g])              for every row r of group g     (forward, gradient of A)
//   along sums     C[g] (+)= sum over rows r of group g of A[r,:]^T B[r,:]               (gradient of B)
//
// Shapes    along rows: A [rows, k], B [groups, k, n] or with trans_b [groups, n, k], C [rows, n]. Along sums, which is
//           trans_a: A [rows, m], B [rows, n], C [groups, m, n]. offsets [groups + 1]. Sizes from 0, groups from 1.
//           Rows of C before o[0] and from o[groups] on are 0. An empty group has no rows, and its C[g] is 0.
// Index     index_a [rows], i32: row r of A is A[index_a[r], :], and A has any number of rows: tokens that experts
// share.
//           index_b so for B, along sums. A negative one stands for a row of zeros. One of the two at most.
// SwiGLU    Along rows, with y: the columns of B are those of gate and, behind them, of up, and n is even.
//             y[r,j] = p[r] silu(C[r,j]) C[r,n/2+j]        of C as it is stored; y [rows, n/2]
//           With gate_up [rows, 2n], the C of such a call, besides: its gradients. D = A op(B) is the gradient of y and
//           is not stored;
//             C[r,j] = p[r] D[r,j] silu'(gate) up    C[r,n+j] = p[r] D[r,j] silu(gate)    C [rows, 2n]
//             dprobs[r] = sum over j of D[r,j] silu(gate) up    y [rows, n] as before, bit for bit
//           with gate = gate_up[r,j] and up = gate_up[r,n+j]. probs [rows], p, may be left out (1), and dprobs with it.
//           Rows of no group are 0 in all of them, whatever gate_up and probs hold there.
// Dtypes    A and B the same one of f32, bf16, f16; C that one or f32; offsets i32 or i64. With y, C has that of A, and
//           so have y and gate_up; probs and dprobs are f32.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= their length apart, each operand's
//           its own; so may the matrices of a stack. Aliasing  C, y and dprobs may not overlap anything
//           else.
// Numerics  As gemm's: products summed in fp32, rounded once. What an element may be off by depends on the length of
//           its sum: k, or the rows of its group. What follows a sum is computed in fp32 as activation's and rounded
//           once; D is not rounded before.
// accumulate  Along sums: C += the sums, added in fp32 and rounded once. An empty group leaves its C[g] as it is.
// NaN, Inf  As the sums say, within a group: what other groups, and rows of no group, hold changes nothing.
// Same bits Always, whatever the number of threads.
// Cost      2 k n FLOP for each row (along sums 2 m n); the rows of groups, or those that an index names, B, C and
//           what else there is once.
// Streams   As gemm's; offsets are read by the kernel, in the stream's order.
// Backward  Calls of grouped_gemm: with B the other way round for A, along sums for B. offsets has no gradient, nor has
//           an index. A gathered operand's gradient is that of the rows, added up by combine_rows; it is no call of
//           this operator. A call with y has no gradient of its own: calls with gate_up, and along sums, make it.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values. On a processor
//           offsets that fall or leave 0 .. rows, and for a row of a group an index from the number of rows on: the
//           error names place and value, and nothing is written. A GPU takes an offset that is less than one before it
//           for that one, one outside of 0 .. rows for the nearer end, and such an index for a row of zeros.
#pragma once

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct GroupedGemmArgs {
  TensorView a, b, offsets;
  TensorView c;  // written
  bool trans_a = false, trans_b = false;
  bool accumulate = false;
  TensorView index_a, index_b;
  TensorView y;        // written; rank 0: sums alone
  TensorView gate_up;  // rank 0: y is that of C
  TensorView probs;    // rank 0: 1
  TensorView dprobs;   // written
};

Status grouped_gemm(const GroupedGemmArgs& args, const Stream& stream);

namespace ops::grouped_gemm {
using Args = GroupedGemmArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
