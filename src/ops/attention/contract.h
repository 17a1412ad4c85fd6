// attention: O = softmax(scale Q K^T) V for every head of every sequence, and the log-sum-exp of every row.
//
//   s[i,j] = scale sum_c q[i,c] k[j,c]        L[i] = log sum_j exp(s[i,j])        o[i,c] = sum_j exp(s[i,j] -
//   L[i]) v[j,c]
//
// over the keys j that query i sees: all, with `causal` those with j <= i + d, d = k_len - q_len (the last query sees
// every key: bottom-right), and in a window those with i + d - window_left <= j <= i + d + window_right.
//
// Sinks     With `sinks`, f32 [heads]: a logit beside the scores of every row of that head, not scaled, that takes part
//           in the sum and has no value: L[i] = log(exp(sink) + sum_j exp(s[i,j])). -infinity is no sink.
//
// Softcap   With `softcap` c > 0 a score is c tanh(s[i,j] / c), before masks and beside sinks, and s[i,j] stands for
//           that below. It is a scalar of the call, as the scale is; 0: without.
//
// ALiBi     With `alibi_slopes`, f32 [heads], slope |i + d - j| of a head is taken off each score behind the softcap,
//           and s[i,j] stands for that below; of packed documents by the places in a document. A slope is no weight:
//           it has no gradient.
//
// Packed    With q_offsets and k_offsets, i32 [documents + 1] on the device, a batch of one sequence is documents
//           behind each other: queries q_offsets[n] .. q_offsets[n + 1] see keys of k_offsets[n] .. k_offsets[n + 1]
//           alone, by the same mask with the document's own lengths for q_len and k_len. Documents may be empty; rows
//           of none are as queries that see no key. The host never reads offsets for a GPU, and no bound of lengths is
//           needed: tiles are cut on the device, by a launch of one block in front of the kernel.
// Shapes    q [batch, q_len, heads, dim]; k [batch, k_len, kv_heads, dim]; v [batch, k_len, kv_heads, v_dim];
//           o [batch, q_len, heads, v_dim]; log_sum_exp [batch, heads, q_len]. heads is a multiple of kv_heads: query
//           head h reads head h / (heads / kv_heads) of k and v. Any size from 0, dim and v_dim each from 1 to 256. A
//           row that sees no key has o = 0 and a log-sum-exp of -infinity, or its head's sink.
// Dtypes    q, k, v and o the same one of bf16, f16; log_sum_exp f32.
// Layout    The last dimension is contiguous; the others may have any strides and order, so [batch, heads, length, dim]
//           and packed qkv are views. Elements between are neither read nor written.
// Aliasing  No output may overlap an input or the other output.
// Numerics  Scores, sums and O in fp32; the weights may be rounded to the dtype of v before they multiply it, each
//           relative to itself; o is rounded once. With u = 2^-24, r the dtype's unit roundoff, S[i,j] = scale sum
//           |q||k| and e[i] = 16 u sqrt(dim) max_j S[i,j] + 2^-20 (1 + max_j |s[i,j]|): |o - exact| <= (r + 2 e[i] + 8
//           u sqrt(k_len)) sum_j w[i,j] |v[j,c]| + t[i] sum_j |v[j,c]| + half an ulp, where t[i] = max(2^-126, half the
//           dtype's smallest step) / sum_j exp(s[i,j] - max_j s[i,j]): exponentials below the normal numbers of fp32
//           may be 0, and weights below those of the dtype have its smallest step. |L - exact| <= e[i] + 2^-20 + 4 u
//           |L|. Scores of thousands and more are outside the model: their rounding alone changes a weight by more than
//           itself. A sink is one more s[i,j] here, in e where its weight is at least 2^-126. With a softcap e[i] has
//           2^-20 c besides, and S is of the scores before it. With slopes S is of the scores before they are taken
//           off, whose 2^-20 max |s| covers them.
// NaN, Inf  A row with a score of NaN or +infinity is NaN, its log-sum-exp too; one whose scores are all -infinity is
//           as one that sees no key (a softcap makes c of infinity, and -c of -infinity, first). With a sink of NaN or
//           +infinity so is every row of its head that sees a key; a slope that is not finite makes scores NaN or
//           infinite. Every other row, and every other head, keeps its values; but a weight of zero times an infinite
//           or NaN v may be NaN in rows that see keys of the same 128, of a matrix-unit kernel, and in rows whose
//           window, or document, ends within 320 keys of it.
// Same bits Always, whatever the number of threads.
// Cost      2 (dim + v_dim) FLOP per pair of a query and a key it sees, per head (of packed documents: as if they were
//           of one length); traffic: every operand once.
// Streams   As gemm's.
// Backward  attention_backward (backward/contract.h), from q, k, v, o and log_sum_exp.
// Errors    kInvalidArgument: rank, dtype, shape, stride, scale, window, null or overlapping memory, with the values;
//           on a processor offsets that fall or leave the rows: the error names place and value, and nothing is
//           written. A GPU takes an offset that is less than one before it for that one, and one outside of the rows
//           for the nearer end.
//
// Window    Keys before and after its own place that a query sees, from 0; -1: all of them. `causal` is a right end of
//           0 and narrows a wider one. A window that reaches beyond all keys is the same call as none.
// Scale     1 / sqrt(dim), whatever v_dim is, unless the call gives another: any finite number above 0. It is a scalar
//           of the call, so no choice and no prepared launch is kept by it.
#pragma once

#include <cstdint>
#include <optional>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct AttentionArgs {
  TensorView q, k, v;
  TensorView o;            // written
  TensorView log_sum_exp;  // written
  bool causal = false;
  std::optional<double> scale;                       // of the scores; none: 1 / sqrt(dim)
  std::int64_t window_left = -1, window_right = -1;  // -1: as many as there are
  TensorView q_offsets, k_offsets;                   // of packed documents; rank 0: there are none
  TensorView sinks;                                  // f32 [heads]; rank 0: there are none
  double softcap = 0;                                // of the scores; 0: none
  TensorView alibi_slopes;                           // f32 [heads]; rank 0: there are none
};

Status attention(const AttentionArgs& args, const Stream& stream);

namespace ops::attention {
using Args = AttentionArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
