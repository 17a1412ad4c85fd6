// gemm_fp8: C = op(A) * op(B) of 8-bit floats with scales, with a bias or added to C.
//
//   C[i,j] = sum_p op(A)[i,p] sA(i,p) * op(B)[p,j] sB(j,p)  (+ bias[j], or + C[i,j] when `accumulate`)
//
// Shapes    A is stored [m,k], or [k,m] with trans_a; B is stored [k,n], or [n,k] with trans_b; C [m,n]. Any size
//           from 0; k = 0 gives zeros (with `accumulate`: C unchanged).
// Scales    run along k whatever the layout: scale_a is that of op(A) [m,k], scale_b that of op(B)^T [n,k], in the
//           shapes, dtypes and layouts of ridge/scaling.h:
//             kTensor  [1] and [1]                                    kRow    [m] and [n]
//             kBlock   A 1x128 [ceil(k/128), m], B 128x128 [ceil(n/128), ceil(k/128)]: forward and data gradient
//             kVector  1x128 both, [ceil(k/128), m] and [ceil(k/128), n]: weight gradient
//             kMx      1x32 both, E8M0, [ceil(k/32), m] and [ceil(k/32), n]
//           They are finite, and zero or at least 2^-126 in magnitude: what is smaller may be flushed or rounded.
//           `quantize` writes them so; for an operand that is stored transposed it writes the scales of q_t.
// Bias      [n], contiguous, of C's dtype, added to the scaled sum in fp32; not with `accumulate`.
// Dtypes    A and B e4m3fn or e5m2, the same or one each (hybrid: gradients in e5m2); C bf16, f16 or f32.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= the columns apart, the scales'
// too. Aliasing  A and B may be the same memory, scales too; C must not overlap any of them. Numerics  Products of
// 8-bit floats are exact. `sums` says how they are added up:
//             kFp32      in fp32: as gemm, with 4 u S more for the scales (u = 2^-24, S = sum |op(A)| |op(B)|)
//             kPromoted  in the matrix unit, which keeps about 14 bits of every addend, for 128 of k, then in fp32:
//                        the bound comes from the data (docs/operators/gemm_fp8.md). Hopper's way for kBlock, kVector
//             kFast      in the matrix unit throughout; the bound as before, of partial sums over all of k
//           A more exact implementation may serve a less exact wish, never the reverse. C is rounded once, at the end.
// NaN, Inf  Propagate as IEEE arithmetic does; nothing is skipped because a factor is zero. On a CPU stream a scale
//           that is NaN or infinite is an error that says which; on a GPU, whose memory is not read back, it makes all
//           it scales NaN or infinite.
// Same bits For the same call, whatever the number of threads.
// Cost      2 m n k FLOP; traffic: operands and scales once, C once, twice with `accumulate`.
// Backward  Both gradients are this operator again, of a quantised dC: dA = dC * op(B)^T, dB = op(A)^T * dC, with
//           copies of A and B whose scales run along the new sum (quantize writes both from high precision).
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, non-finite scales, with the
//           values. kUnsupported: an implementation was forced that cannot run the case.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

enum class Fp8Scaling : std::uint8_t { kTensor, kRow, kBlock, kVector, kMx };
enum class Fp8Sums : std::uint8_t { kFp32, kPromoted, kFast };

struct GemmFp8Args {
  TensorView a, b;
  TensorView scale_a, scale_b;
  TensorView c;     // written
  TensorView bias;  // rank 0: none
  bool trans_a = false;
  bool trans_b = false;
  bool accumulate = false;  // C += instead of C =
  Fp8Scaling scaling = Fp8Scaling::kTensor;
  Fp8Sums sums = Fp8Sums::kPromoted;
};

Status gemm_fp8(const GemmFp8Args& args, const Stream& stream);

namespace ops::gemm_fp8 {
using Args = GemmFp8Args;  // what add_op generates the entry point from
}

}  // namespace ridge
