// attention_backward: the gradients of attention, O = softmax(scale Q K^T) V, from that of O.
//
//   p[i,j] = exp(s[i,j] - L[i])          s[i,j] = scale sum_c q[i,c] k[j,c]       D[i] = sum_c do[i,c] o[i,c]
//   ds[i,j] = p[i,j] (sum_c do[i,c] v[j,c] - D[i])
//   dq[i,c] = scale sum_j ds[i,j] k[j,c]   dk[j,c] = scale sum_i ds[i,j] q[i,c]   dv[j,c] = sum_i p[i,j] do[i,c]
//
// over the pairs of a query and a key that it sees; the sums of dk and dv are also over the query heads of a group. L
// and o are what `attention` wrote. There is no gradient through the log-sum-exp. With sinks
//
//   dsink[h] = -sum exp(sink[h] - L[i]) D[i]      over the rows i of that head, of all sequences
//
// With a softcap c, s[i,j] is c t with t the tanh of the scaled product over c, and ds[i,j] has the factor 1 - t^2.
// With slopes, slope |i + d - j| is taken off s[i,j] behind that, as attention does; they have no gradient.
//
// Shapes    q, d_q [batch, q_len, heads, dim]; o, d_o [batch, q_len, heads, v_dim]; k, d_k [batch, k_len, kv_heads,
//           dim]; v, d_v [batch, k_len, kv_heads, v_dim]; log_sum_exp [batch, heads, q_len]. Heads, lengths, dim and
//           v_dim as attention's. sinks, d_sinks f32 [heads], both or neither.
// Dtypes    All the same one of bf16, f16; log_sum_exp f32.
// Layout    As attention's: the last dimension contiguous, any strides and order of the others.
// Aliasing  No output may overlap an input or another output.
// Numerics  Products and sums in fp32; p and ds may be rounded to the dtype before they are multiplied; each gradient
//           is rounded once. With u, r, S and e of attention, e'[i] = e[i] + 2^-20 |L[i]|, and f[i,j] = 16 u
//           sqrt(v_dim) (sum |do||v| + sum |do||o|): |dv - exact| <= sum_i (2 e' + r + 8 u sqrt(n)) p |do|, |dq -
//           exact| <= scale sum_j ((2 e' + r + 4 u + 8 u sqrt(n)) |ds| + p f) |k|, dk likewise; each plus half an ulp,
//           n the number of terms, and where p or ds are too small for a relative error t = max(2^-126, half the
//           dtype's smallest step): t sum |do| of dv, scale sum (t + 2^-126 |do v - do o|) |k| of dq. With a softcap f
//           has (2^-20 + e' / c) |do v - do o| besides, and 2^-20 c is in e'. |dsink - exact| <= sum_i ((2^-19 (1 +
//           |sink| + |L|) + 8 u sqrt(n)) w |D| + w g) + 2^-126 sum |D|, with w[i] = exp(sink - L[i]), g[i] = 16 u
//           sqrt(v_dim) sum |do||o|, plus half an ulp of f32.
// NaN, Inf  A row whose log-sum-exp is -infinity weighs every key and its sink with zero. What is not finite in a row
//           of q, o, d_o or log_sum_exp may make dk and dv of its group's head, dsink of its head, and dq of that row
//           NaN; in a row of k or v, dq of every query of the head, whether they see each other or not. Other heads
//           keep their values.
// Same bits On a CPU always, whatever the number of threads; on a GPU always of dk, dv and dsink, of dq with
//           `deterministic`.
// Cost      2 (3 dim + 2 v_dim) FLOP per pair of a query and a key it sees, per head; traffic: every operand once.
//           Scratch memory on a GPU: 4 dim + 8 bytes per query and query head, dim rounded up to 64 (with a softcap
//           to 128), 128, 192 or 256.
// Streams   As gemm's.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values.
//
// Window, Packed   As attention's: what the forward had. d_k and d_v of keys of no document are 0.
// Scale     As attention's: the one that the forward had.
#pragma once

#include <cstdint>
#include <optional>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct AttentionBackwardArgs {
  TensorView q, k, v, o, log_sum_exp;  // of the forward
  TensorView d_o;
  TensorView d_q, d_k, d_v;  // written
  bool causal = false;
  bool deterministic = false;                        // equal bits of dq over runs, also on a GPU
  std::optional<double> scale;                       // of the scores; none: 1 / sqrt(dim)
  std::int64_t window_left = -1, window_right = -1;  // as the forward had them
  TensorView q_offsets, k_offsets;                   // as the forward had them
  TensorView sinks;                                  // as the forward had them
  TensorView d_sinks;                                // written, where there are sinks
  double softcap = 0;                                // as the forward had it
  TensorView alibi_slopes;                           // as the forward had them
};

Status attention_backward(const AttentionBackwardArgs& args, const Stream& stream);

namespace ops::attention_backward {
using Args = AttentionBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
