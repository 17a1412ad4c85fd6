// attention_fp8: attention, forward, of 8-bit codes with a scale for each head.
//
//   q[i,c] = q_scale q_code[i,c], k and v likewise; then O and L as attention has them (../contract.h): s[i,j] = scale
//   sum_c q[i,c] k[j,c], L[i] = log sum_j exp(s[i,j]), o[i,c] = sum_j exp(s[i,j] - L[i]) v[j,c]
//
// over the keys that query i sees: all, causal (bottom-right), or in a window with an end on either side. Packed
// documents, sinks, softcaps and slopes are not offered: attention has them, of bf16 and f16.
//
// Shapes    q [batch, q_len, heads, dim]; k [batch, k_len, kv_heads, dim]; v [batch, k_len, kv_heads, v_dim];
//           q_scale [batch, heads]; k_scale and v_scale [batch, kv_heads]; o [batch, q_len, heads, v_dim]; log_sum_exp
//           [batch, heads, q_len]. heads is a multiple of kv_heads. Any size from 0, dim and v_dim each from 1 to 256.
//           A row that sees no key has o = 0 and a log-sum-exp of -infinity, whatever its scales are.
// Dtypes    q, k, v e4m3fn; scales f32; o bf16 or f16; log_sum_exp f32.
// Layout    The last dimension is contiguous; those of q, k, v and o may have any strides and order otherwise.
// Aliasing  No output may overlap an input or the other output.
// Scales    Zero or more. Where the factor of a head's scores, scale q_scale k_scale, is negative, no number or above
//           2^99, o and log_sum_exp of its rows that see a key are NaN; where v_scale is not finite, o is.
// Numerics  Products of codes are exact. Sums may be those of Hopper's matrix unit, which adds up in steps of 32 terms,
//           aligns them and the partial sum to the largest of these and cuts off what is below 2^-13 of it
//           (ops/matmul/matrix_unit.h): a sum of such steps is off by at most M = C + 10 sqrt(V). Scores are one sum
//           over dim. Weights are exp(s - m), m the largest score so far, times a power of two that makes the largest
//           2^6 to 2^8, rounded to e4m3: by 2^-4 of themselves or half the smallest step, 2^-16 of the largest weight
//           of the row. Their sum is of those before they were rounded, in fp32. The products with v are added up by
//           the matrix unit for at most 128 keys, which begin at a multiple of 128, and then in fp32. o is rounded
//           once. With u = 2^-24, r the unit roundoff of o, F = scale q_scale k_scale, M_s and M_v the sums' errors of
//           codes, e[i] = F max_j M_s[i,j] + 2^-20 (1 + max_j |s[i,j]|) and w[i,j] = exp(s[i,j] - L[i]): |o - exact| <=
//           (r + 2^-4 + 2 e[i] + 8 u sqrt(k_len)) sum_j w |v| + 2^-16 max_j w sum_j |v| + v_scale M_v + half an ulp. |L
//           - exact| <= e[i] + 2^-20 + (4 |L| + 8 sqrt(k_len)) u. Scores of thousands are outside the model.
// NaN       A row with a score of NaN is NaN, its log-sum-exp too. Every other row, and every other head, keeps its
//           values; but a weight of zero times a NaN v may be NaN in rows that see keys of the same 128, of a
//           matrix-unit kernel, and in rows whose window ends within 320 keys of it.
// Same bits Always, whatever the number of threads.
// Cost      2 (dim + v_dim) FLOP per pair of a query and a key it sees, per head; traffic: every operand once. Scratch
//           memory on a GPU: v_dim bytes per key and head of v, keys rounded up to 128.
// Streams   As gemm's.
// Backward  There is none: a call of PyTorch that needs a gradient is an error.
// Errors    kInvalidArgument: rank, dtype, shape, stride, scale, window, null or overlapping memory, with the values.
//
// Window, scale   As attention's.
#pragma once

#include <cstdint>
#include <optional>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct AttentionFp8Args {
  TensorView q, k, v;
  TensorView q_scale, k_scale, v_scale;
  TensorView o;            // written
  TensorView log_sum_exp;  // written
  bool causal = false;
  std::optional<double> scale;                       // of the scores; none: 1 / sqrt(dim)
  std::int64_t window_left = -1, window_right = -1;  // -1: as many as there are
};

Status attention_fp8(const AttentionFp8Args& args, const Stream& stream);

namespace ops::attention_fp8 {
using Args = AttentionFp8Args;  // what add_op generates the entry point from
}

}  // namespace ridge
