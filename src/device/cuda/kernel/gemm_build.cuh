// What every matrix-product source is built from: element types, layouts, scales and epilogue, chosen by macros that
// the launch plan writes ([define] in src/ops/matmul/cuda_*.cu), and the parameters that go with them.
#pragma once
#include "epilogue.cuh"
#include "wgmma.cuh"

#ifndef RIDGE_TYPE_A
#define RIDGE_TYPE_A kBf16
#endif
#ifndef RIDGE_TYPE_B
#define RIDGE_TYPE_B kBf16
#endif
#ifndef RIDGE_TYPE_C
#define RIDGE_TYPE_C kBf16
#endif
#ifndef RIDGE_MAJOR_A
#define RIDGE_MAJOR_A kK
#endif
#ifndef RIDGE_MAJOR_B
#define RIDGE_MAJOR_B kK
#endif
#ifndef RIDGE_STORE
#define RIDGE_STORE kOverwrite
#endif
#ifndef RIDGE_SCALING
#define RIDGE_SCALING kNone
#endif
#ifndef RIDGE_ACTIVATION
#define RIDGE_ACTIVATION kIdentity
#endif
#ifndef RIDGE_BIAS
#define RIDGE_BIAS 0
#endif
#ifndef RIDGE_RESIDUAL
#define RIDGE_RESIDUAL 0
#endif

namespace ridge::cuda {

// Factors of 8-bit operands, fp32 (MX: E8M0 bytes). Tensor: one of A and one of B. Row: one per row of A and per column
// of op(B). Block: A's per row and 128 of K, [K block][M], and B's per 128 x 128, [N block][K block]. Vector: both per
// row or column and 128 of K, [K block][M] and [K block][N]. Mx: the same per 32 of K, as powers of two.
enum class Scaling { kNone, kTensor, kRow, kBlock, kVector, kMx };

struct ScaleView {
  const void* a;
  const void* b;
  i64 stride_a;  // elements from one K block to the next
  i64 stride_b;  // Block: from one N block to the next; Vector and Mx: from one K block to the next
  __device__ __forceinline__ const float* fp32_a() const { return static_cast<const float*>(a); }
  __device__ __forceinline__ const float* fp32_b() const { return static_cast<const float*>(b); }
};

// Both in C's type. Bias: one per column. Residual: a matrix of C's shape, which may be C itself.
struct EpilogueView {
  const void* bias;
  const void* residual;
  i64 residual_stride;  // elements
};

struct GemmBuild {
  static constexpr MatrixType kTypeA = MatrixType::RIDGE_TYPE_A;
  static constexpr MatrixType kTypeB = MatrixType::RIDGE_TYPE_B;
  static constexpr OutputType kTypeC = OutputType::RIDGE_TYPE_C;
  static constexpr Major kMajorA = Major::RIDGE_MAJOR_A;
  static constexpr Major kMajorB = Major::RIDGE_MAJOR_B;
  static constexpr StoreMode kStore = StoreMode::RIDGE_STORE;
  static constexpr Scaling kScaling = Scaling::RIDGE_SCALING;
  static constexpr Activation kActivation = Activation::RIDGE_ACTIVATION;
  static constexpr bool kBias = RIDGE_BIAS != 0;
  static constexpr bool kResidual = RIDGE_RESIDUAL != 0;
  static constexpr bool kEightBit = kTypeA == MatrixType::kE4m3 || kTypeA == MatrixType::kE5m2;
  static constexpr bool kFinishes = kScaling == Scaling::kTensor || kScaling == Scaling::kRow || kBias || kResidual ||
                                    kActivation != Activation::kIdentity;
  static_assert(kScaling == Scaling::kNone || kEightBit, "scales belong to 8-bit operands");
};

}  // namespace ridge::cuda
