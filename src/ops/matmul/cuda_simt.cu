// Matrix product by plain fused multiply-adds in fp32: C = op(A) * op(B) (+ C) with the scales and epilogues of
// cuda_wgmma.cu. A block computes 128 x 128 elements out of 128 x 16 slices in shared memory, each thread 8 x 8 of
// them; the next slice is read into registers while this one is multiplied. Every load is one element with its own
// bounds check, so any stride and alignment works.
//
// Wins for fp32 operands, which the tensor cores cannot multiply exactly. Otherwise it is here so that every shape has
// a GPU answer: operands the copy engine cannot address (a base or a row stride that is not a multiple of 16 bytes),
// 8-bit operands in layouts the matrix unit cannot read, MX scales. Its bound is the fp32 unit, a fifteenth of the
// tensor cores for bf16; padding the rows to 16 bytes is always the better way out. Scales are multiplied in as
// operands are read, so 8-bit sums are fp32 sums throughout. The same macros as cuda_wgmma.cu choose the build
// (gemm_build.cuh); the entry point is `ridge_gemm_simt`. The case is described by the numbers of
// src/ops/matmul/values.h.

// clang-format off
/* ridge-kernel
op = ["gemm", "gemm_fp8"]
# Two blocks of 256 threads share a multiprocessor, or one where scales or an epilogue take more.
max_registers = 192
sass = [{ opcode = "FFMA" }]
[define]
RIDGE_TYPE_A = { value = "type_a", names = ["kBf16", "kF16", "kF32", "kE4m3", "kE5m2", "kTf32"] }
RIDGE_TYPE_B = { value = "type_b", names = ["kBf16", "kF16", "kF32", "kE4m3", "kE5m2", "kTf32"] }
RIDGE_TYPE_C = { value = "type_c", names = ["kBf16", "kF16", "kF32"] }
RIDGE_MAJOR_A = { value = "a_mn_major", names = ["kK", "kMn"] }
RIDGE_MAJOR_B = { value = "b_mn_major", names = ["kK", "kMn"] }
RIDGE_STORE = { value = "accumulate && residual_is_c == 0", names = ["kOverwrite", "kAdd"] }
RIDGE_SCALING = { value = "scales", names = ["kNone", "kTensor", "kRow", "kBlock", "kVector", "kMx"] }
RIDGE_BIAS = { value = "bias" }
RIDGE_ACTIVATION = { value = "activation", names = ["kIdentity", "kGelu", "kGeluTanh", "kSilu"] }
RIDGE_RESIDUAL = { value = "residual || residual_is_c" }
[configs]
simt = { }
[variants]
nt_bf16 = { case = "gemm m=512 n=512 k=512 dtype=bf16 layout=nt" }
tn_bf16_f32add = { case = "gemm m=512 n=512 k=512 dtype=bf16 layout=tn out=f32 accumulate=1" }
nt_f16 = { case = "gemm m=512 n=512 k=512 dtype=f16 layout=nt" }
nt_f32 = { case = "gemm m=512 n=512 k=512 dtype=f32 layout=nt" }
nn_bf16_epilogue = { case = "gemm m=512 n=512 k=512 dtype=bf16 layout=nn bias=1 activation=gelu residual=1" }
tt_e5m2_e4m3_mx = { case = "gemm_fp8 m=512 n=512 k=512 dtype=e5m2_e4m3fn layout=tt scaling=mx" }
nn_e4m3_block = { case = "gemm_fp8 m=512 n=512 k=512 dtype=e4m3fn layout=nn scaling=block" }
*/
/* ridge-launch
[[value]]
name = "residual_is_c"
expression = "accumulate && type_c != 2"
[[needs]]
expression = "batch == 1"
reason = "one matrix at a time"
[[needs]]
expression = "ceil_div(m, 128) <= 65535 && n <= 2147483647"
reason = "a grid has at most 65535 rows of tiles of 128, and columns are counted in 32 bits"
[[kernel]]
symbol = "ridge_gemm_simt"
grid = ["ceil_div(n, 128)", "ceil_div(m, 128)"]
block = [256]
args = [
  { operand = "a" }, { operand = "b" }, { i64 = "row_a" }, { i64 = "row_b" }, { i64 = "k" },
  { struct = [{ operand = "c" }, { i64 = "row_c" }, { u32 = "m" }, { u32 = "n" }] },
  { struct = [{ operand = "scale_a", when = "scales > 0" }, { operand = "scale_b", when = "scales > 0" },
              { i64 = "scale_stride_a" }, { i64 = "scale_stride_b" }] },
  { struct = [{ operand = "bias", when = "bias" }, { operand = "c", when = "residual_is_c", else = "residual" },
              { i64 = "residual_is_c ? row_c : (residual ? row_residual : 0)" }] },
]
*/
// clang-format on

#include "../../device/cuda/kernel/finish.cuh"
#include "../../device/cuda/kernel/fp8.cuh"

namespace ridge::cuda {
namespace {

constexpr u32 kTile = 128;
constexpr u32 kDepth = 16;
constexpr u32 kThreads = 256;
constexpr u32 kPerThread = kTile * kDepth / kThreads;  // elements of a slice that one thread brings
constexpr u32 kSide = 8;                               // rows and columns of one thread

template <MatrixType kType>
__device__ __forceinline__ float load_element(const void* data, i64 index) {
  if constexpr (kType == MatrixType::kF32) {
    return static_cast<const float*>(data)[index];
  } else if constexpr (kType == MatrixType::kBf16) {
    return __uint_as_float(static_cast<u32>(static_cast<const u16*>(data)[index]) << 16);
  } else if constexpr (kType == MatrixType::kF16) {
    return half_to_float(static_cast<const u16*>(data)[index]);
  } else {
    const u16 byte = static_cast<const u8*>(data)[index];
    u32 halves;
    if constexpr (kType == MatrixType::kE4m3) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(byte));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(byte));
    }
    return half_to_float(static_cast<u16>(halves));
  }
}

// The factor of an element of A (kOfA) or B that is not left to the epilogue.
template <bool kOfA>
__device__ __forceinline__ float scale_along_k(const ScaleView& scales, i64 mn, i64 k) {
  constexpr Scaling kScaling = GemmBuild::kScaling;
  if constexpr (kScaling == Scaling::kMx) {
    const u8* const data = static_cast<const u8*>(kOfA ? scales.a : scales.b);
    return power_of_two(data[k / 32 * (kOfA ? scales.stride_a : scales.stride_b) + mn]);
  } else if constexpr (kScaling == Scaling::kBlock && !kOfA) {
    return scales.fp32_b()[mn / 128 * scales.stride_b + k / 128];
  } else if constexpr (kScaling == Scaling::kBlock || kScaling == Scaling::kVector) {
    return kOfA ? scales.fp32_a()[k / 128 * scales.stride_a + mn] : scales.fp32_b()[k / 128 * scales.stride_b + mn];
  } else {
    return 1.0f;
  }
}

struct Operand {
  const void* data;
  i64 row_stride, first, limit;  // rows of the tile within the operand
};

// Which element of a slice the thread's i-th is: threads run along whichever side is contiguous in memory.
template <Major kMajor>
__device__ __forceinline__ u32 row_of(u32 i) {
  return kMajor == Major::kK ? threadIdx.x / kDepth + i * (kThreads / kDepth) : threadIdx.x % kTile;
}
template <Major kMajor>
__device__ __forceinline__ u32 depth_of(u32 i) {
  return kMajor == Major::kK ? threadIdx.x % kDepth : threadIdx.x / kTile + i * (kThreads / kTile);
}

template <MatrixType kType, Major kMajor, bool kOfA>
__device__ __forceinline__ void read_slice(float (&values)[kPerThread], const Operand& from, const ScaleView& scales,
                                           i64 k0, i64 k) {
  i64 row = from.first + row_of<kMajor>(0), column = k0 + depth_of<kMajor>(0);
  i64 index = kMajor == Major::kK ? row * from.row_stride + column : column * from.row_stride + row;
#pragma unroll
  for (u32 i = 0; i < kPerThread; ++i) {
    values[i] = 0.0f;
    if (row < from.limit && column < k) {
      values[i] = load_element<kType>(from.data, index) * scale_along_k<kOfA>(scales, row, column);
    }
    if constexpr (kMajor == Major::kK) {
      row += kThreads / kDepth;
      index += kThreads / kDepth * from.row_stride;
    } else {
      column += kThreads / kTile;
      index += kThreads / kTile * from.row_stride;
    }
  }
}

using Slice = float[kDepth][kTile + 4];

template <Major kMajor>
__device__ __forceinline__ void keep_slice(Slice& slice, const float (&values)[kPerThread]) {
#pragma unroll
  for (u32 i = 0; i < kPerThread; ++i) slice[depth_of<kMajor>(i)][row_of<kMajor>(i)] = values[i];
}

// Rows (or columns) of a thread: four from each half of the tile, so that neighbouring threads read neighbouring words.
__device__ __forceinline__ u32 place_of(u32 group, u32 i) { return group * 4 + i % 4 + i / 4 * (kTile / 2); }

}  // namespace
}  // namespace ridge::cuda

// Two blocks share a multiprocessor, one where scales or an epilogue need the registers.
extern "C" __global__ void __launch_bounds__(
    256, ridge::cuda::GemmBuild::kScaling == ridge::cuda::Scaling::kNone && !ridge::cuda::GemmBuild::kFinishes ? 2 : 1)
    ridge_gemm_simt(const void* const a, const void* const b, const ridge::cuda::i64 row_a,
                    const ridge::cuda::i64 row_b, const ridge::cuda::i64 k, const ridge::cuda::OutputView output,
                    const ridge::cuda::ScaleView scales, const ridge::cuda::EpilogueView extra) {
  using namespace ridge::cuda;
  using Build = GemmBuild;
  __shared__ __align__(16) Slice slice_a, slice_b;
  const Operand from_a{a, row_a, static_cast<i64>(blockIdx.y) * kTile, output.rows};
  const Operand from_b{b, row_b, static_cast<i64>(blockIdx.x) * kTile, output.cols};
  const u32 row_group = threadIdx.x / 16, col_group = threadIdx.x % 16;
  float next_a[kPerThread], next_b[kPerThread];
  auto read = [&](i64 k0) {
    read_slice<Build::kTypeA, Build::kMajorA, true>(next_a, from_a, scales, k0, k);
    read_slice<Build::kTypeB, Build::kMajorB, false>(next_b, from_b, scales, k0, k);
  };
  float sums[kSide][kSide] = {};
  read(0);
  for (i64 k0 = 0; k0 < k; k0 += kDepth) {
    __syncthreads();
    keep_slice<Build::kMajorA>(slice_a, next_a);
    keep_slice<Build::kMajorB>(slice_b, next_b);
    __syncthreads();
    read(k0 + kDepth);
#pragma unroll
    for (u32 depth = 0; depth < kDepth; ++depth) {
      float x[kSide], y[kSide];
#pragma unroll
      for (u32 i = 0; i < kSide; ++i) {
        x[i] = slice_a[depth][place_of(row_group, i)];
        y[i] = slice_b[depth][place_of(col_group, i)];
      }
#pragma unroll
      for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
        for (u32 j = 0; j < kSide; ++j) sums[i][j] += x[i] * y[j];
      }
    }
  }
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
    const u32 row = static_cast<u32>(from_a.first) + place_of(row_group, i);
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const u32 col = static_cast<u32>(from_b.first) + place_of(col_group, j);
      if (row >= output.rows || col >= output.cols) continue;
      store_element<Build::kTypeC, Build::kStore>(output, row, col,
                                                  finish_element<Build>(sums[i][j], scales, extra, row, col));
    }
  }
}
