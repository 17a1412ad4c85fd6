// gemm: C = op(A) * op(B), or C += op(A) * op(B); op is the identity or the transpose. With an epilogue
// C = f(op(A) * op(B) + bias) + residual.
//
//   C[i,j] = sum_p op(A)[i,p] * op(B)[p,j]  (+ C[i,j] when `accumulate`)         op(A): [m,k]  op(B): [k,n]  C: [m,n]
//
// Shapes    A is stored [m,k], or [k,m] with trans_a; B is stored [k,n], or [n,k] with trans_b. Any size from 0;
//           k = 0 gives zeros (with `accumulate`: C unchanged); m = 0 or n = 0 does nothing. Indices are 64 bits wide.
//           Batched: A, B, C and the residual have a first dimension more, the same size for all; the bias has not.
// Epilogue  bias [n] is added to every row, f is the identity, GELU (x/2 (1 + erf(x / sqrt 2))), its tanh form
//           (x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))) or SiLU (x / (1 + exp(-x))), residual [m,n] is added last;
//           all in fp32, before the one rounding to C. Not together with `accumulate`, which adds the product alone.
// Dtypes    A and B the same one of f32, bf16, f16; C that dtype or f32; bias and residual C's.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, and no
//           alignment beyond the element's is needed. Elements between the rows are neither read nor written.
// Aliasing  A and B may be the same memory; C must not overlap any input.
// Numerics  Products and sums in fp32; C is rounded once, at the end. With u = 2^-24,
//           |C - exact| <= 8 u sqrt(k) S + half an ulp of C,   S = sum_p |op(A)| |op(B)| (+ |C_old|)
//           (numerics/error_model.h, which also gives the tighter line for the RMS over all elements).
//           An epilogue multiplies the first term by 1.13, the largest slope of f, and adds 8 u |x| for f(x) and u for
//           each addition. The order of the sum is the implementation's. bf16 and f16 inputs are exact in fp32;
//           subnormal bf16 inputs and results, and fp32 sums of bf16 products, may count as zero, which is what the
//           dot-product instructions of x86 for bf16 do (they round to nearest even in any rounding mode).
// NaN, Inf  Propagate as IEEE arithmetic does; sums beyond C's range become Inf. Zero times Inf is NaN: nothing is
//           skipped because a factor is zero.
// Same bits cpu_amx, cpu_bf16dot, cpu_simd and the reference each give the same bits for the same call, whatever the
//           number of threads; other libraries the same bits for the same number of threads.
// Cost      2 m n k FLOP (the addition of `accumulate` is not counted); traffic: A, B and C once, C twice with
//           `accumulate`.
// Streams   On a CPU stream the call is done when it returns. On a CUDA stream the operands are device memory and the
//           call enqueues; the first one with new shapes and strides compiles and loads a kernel and cannot be captured
//           into a graph, later ones neither allocate nor wait.
// Backward  Saves A and B. dA = dC * op(B)^T and dB = op(A)^T * dC, each one gemm in the layout of its input. With an
//           activation, dC is the gradient before it: the caller multiplies by f'.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values.
//           kUnsupported: an implementation was forced that cannot run the case.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

enum class Activation : std::uint8_t { kNone, kGelu, kGeluTanh, kSilu };

struct GemmArgs {
  TensorView a, b;
  TensorView c;  // written
  bool trans_a = false;
  bool trans_b = false;
  bool accumulate = false;  // C += instead of C =
  TensorView bias{};        // [n]; rank 0: none
  Activation activation = Activation::kNone;
  TensorView residual{};  // of C's shape; rank 0: none
};

Status gemm(const GemmArgs& args, const Stream& stream);

// The gradient of one input of `forward`, whose C is not looked at.
struct GemmGradArgs {
  GemmArgs forward;
  TensorView grad_c;        // [m,n], A's dtype
  TensorView grad;          // written: A's or B's stored shape; that dtype or f32
  bool accumulate = false;  // add to `grad`, as a gradient kept over micro-batches wants
};

// The gemm that computes the gradient of A or of B.
GemmArgs gemm_grad_a_call(const GemmGradArgs& args);
GemmArgs gemm_grad_b_call(const GemmGradArgs& args);

inline Status gemm_grad_a(const GemmGradArgs& args, const Stream& stream) {
  return gemm(gemm_grad_a_call(args), stream);
}
inline Status gemm_grad_b(const GemmGradArgs& args, const Stream& stream) {
  return gemm(gemm_grad_b_call(args), stream);
}

namespace ops::gemm {
using Args = GemmArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
