// Matrix product for operands the copy engine cannot address (a base or a row stride that is not a multiple of 16
// bytes): C = op(A) * op(B) (+ C) by plain fused multiply-adds in fp32. A block computes 64 x 64 elements out of 64 x
// 16 slices in shared memory, each thread 4 x 4 of them; every load is one element with its own bounds check, so any
// stride works.
//
// Wins nowhere: it is here so that every shape has a GPU answer. Its bound is the fp32 unit, some twentieth of the
// tensor cores; padding the rows to 16 bytes is always the better way out. The same macros as cuda_wgmma.cu choose
// types and layouts; the entry point is `ridge_gemm_simt`, grid (ceil(N/64), ceil(M/64)), 256 threads.
#include "../../device/cuda/kernel/epilogue.cuh"
#include "../../device/cuda/kernel/wgmma.cuh"

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

namespace ridge::cuda {
namespace {

constexpr u32 kTile = 64;
constexpr u32 kDepth = 16;

template <MatrixType kType>
__device__ __forceinline__ float load_element(const void* data, i64 index) {
  if constexpr (kType == MatrixType::kBf16) {
    return __uint_as_float(static_cast<u32>(static_cast<const u16*>(data)[index]) << 16);
  } else if constexpr (kType == MatrixType::kF16) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<const u16*>(data)[index]));
    return value;
  } else {
    const u16 byte = static_cast<const u8*>(data)[index];
    u32 halves;
    if constexpr (kType == MatrixType::kE4m3) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(byte));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(byte));
    }
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<u16>(halves)));
    return value;
  }
}

// One slice: kTile rows of the operand by kDepth of K, stored K-outermost so that a thread reads four neighbours at
// once. Threads run along whichever side is contiguous in memory.
template <MatrixType kType, Major kMajor>
__device__ __forceinline__ void load_slice(float (&slice)[kDepth][kTile + 4], const void* data, i64 row_stride,
                                           i64 first, i64 limit, i64 k0, i64 k) {
  for (u32 i = threadIdx.x; i < kTile * kDepth; i += 256) {
    const u32 mn = kMajor == Major::kK ? i / kDepth : i % kTile;
    const u32 depth = kMajor == Major::kK ? i % kDepth : i / kTile;
    const i64 row = first + mn, column = k0 + depth;
    float value = 0.0f;
    if (row < limit && column < k) {
      value = load_element<kType>(data, kMajor == Major::kK ? row * row_stride + column : column * row_stride + row);
    }
    slice[depth][mn] = value;
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256)
    ridge_gemm_simt(const void* const a, const void* const b, const ridge::cuda::i64 row_a,
                    const ridge::cuda::i64 row_b, const ridge::cuda::i64 k, const ridge::cuda::OutputView output,
                    const float* const scale_a, const float* const scale_b) {
  using namespace ridge::cuda;
  constexpr MatrixType kTypeA = MatrixType::RIDGE_TYPE_A, kTypeB = MatrixType::RIDGE_TYPE_B;
  __shared__ float slice_a[kDepth][kTile + 4];
  __shared__ float slice_b[kDepth][kTile + 4];
  const i64 m0 = static_cast<i64>(blockIdx.y) * kTile, n0 = static_cast<i64>(blockIdx.x) * kTile;
  const u32 row = threadIdx.x / 16 * 4, col = threadIdx.x % 16 * 4;
  float sums[4][4] = {};
  for (i64 k0 = 0; k0 < k; k0 += kDepth) {
    load_slice<kTypeA, Major::RIDGE_MAJOR_A>(slice_a, a, row_a, m0, output.rows, k0, k);
    load_slice<kTypeB, Major::RIDGE_MAJOR_B>(slice_b, b, row_b, n0, output.cols, k0, k);
    __syncthreads();
#pragma unroll
    for (u32 depth = 0; depth < kDepth; ++depth) {
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) sums[i][j] += slice_a[depth][row + i] * slice_b[depth][col + j];
      }
    }
    __syncthreads();
  }
  float scale = 1.0f;
  if constexpr (kTypeA == MatrixType::kE4m3 || kTypeA == MatrixType::kE5m2) scale = *scale_a * *scale_b;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      store_element<OutputType::RIDGE_TYPE_C, StoreMode::RIDGE_STORE>(
          output, static_cast<u32>(m0) + row + i, static_cast<u32>(n0) + col + j, sums[i][j] * scale);
    }
  }
}
