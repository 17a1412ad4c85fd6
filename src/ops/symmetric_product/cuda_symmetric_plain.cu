// Symmetric products by fused multiply-adds in fp32: the tiles of 64 x 64 on and above the diagonal, each written
// twice. A thread holds 4 x 4 elements, out of slices of 16 terms in shared memory; every load and store is one element
// with its own bounds check, so any stride and alignment works.
//
// Here so that every case has a GPU answer: f32, which the matrix unit cannot multiply exactly, operands that the copy
// engine cannot address, GPUs before Hopper. Loses to cuda_symmetric wherever that runs, by a factor of twenty and
// more.

// clang-format off
/* ridge-kernel
op = "symmetric_product"
max_registers = 128
sass = [{ opcode = "FFMA" }]
[define]
RIDGE_TYPE_A = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_C = { value = "out ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TURNED = { value = "layout" }
RIDGE_RESIDUAL = { value = "residual" }
[configs]
default = { }
[variants]
f32 = { case = "symmetric_product n=1024 k=1024 dtype=f32" }
f32_residual = { case = "symmetric_product n=1024 k=1024 dtype=f32 residual=1 layout=t" }
bf16 = { case = "symmetric_product n=1023 k=1023 residual=1" }
f16_f32 = { case = "symmetric_product n=1023 k=1023 dtype=f16 out=f32 layout=t" }
*/
/* ridge-launch
[[value]]
name = "side"
expression = "ceil_div(n, 64)"
[[needs]]
expression = "batch <= 65535 && side <= 65535"
reason = "a grid has at most 65535 rows, and tiles are counted in 32 bits"
[[kernel]]
symbol = "ridge_symmetric_plain"
grid = ["max(1, floor_div(side * (side + 1), 2))", "max(1, batch)"]
block = [256]
args = [{ struct = [
  { operand = "a" }, { operand = "c" }, { operand = "residual", when = "residual" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "a_stride1" }, { i64 = "c_stride0" }, { i64 = "c_stride1" },
  { i64 = "matrix_residual" }, { i64 = "row_residual" },
  { f32 = "alpha" }, { f32 = "beta" }, { f32 = "shift" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/epilogue.cuh"
#include "triangle.cuh"

namespace ridge::cuda {

// As the launch plan fills it; strides in elements.
struct PlainParameters {
  const u8* a;
  u8* c;
  const u8* residual;
  i64 n, k, a_matrix, a_row, c_matrix, c_row, residual_matrix, residual_row;
  float alpha, beta, shift;
};

namespace {

constexpr OutputType kA = OutputType::RIDGE_TYPE_A, kC = OutputType::RIDGE_TYPE_C;
constexpr bool kTurned = RIDGE_TURNED != 0, kResidual = RIDGE_RESIDUAL != 0;
constexpr u32 kTile = 64, kDepth = 16, kThreads = 256, kSide = 4;
constexpr u32 kPerThread = kTile * kDepth / kThreads;  // elements of a slice that one thread brings

template <OutputType kType>
constexpr i64 kBytes = kType == OutputType::kF32 ? 4 : 2;

// [term][row]; a column more keeps the writes of rows that lie beside each other in memory apart.
using Slice = float[kDepth][kTile + 4];

// Threads run along whichever side is contiguous in memory.
__device__ __forceinline__ void read_slice(Slice& to, const u8* a, const PlainParameters& p, i64 row, i64 term) {
#pragma unroll
  for (u32 i = 0; i < kPerThread; ++i) {
    const u32 at = threadIdx.x + i * kThreads;
    const u32 depth = kTurned ? at / kTile : at % kDepth, side = kTurned ? at % kTile : at / kDepth;
    float value = 0.0f;
    if (row + side < p.n && term + depth < p.k) {
      const i64 index = kTurned ? (term + depth) * p.a_row + row + side : (row + side) * p.a_row + term + depth;
      value = load_output<kA>(a, index);
    }
    to[depth][side] = value;
  }
}

__device__ __forceinline__ void store(u8* c, i64 index, float value) {
  if constexpr (kC == OutputType::kF32) {
    reinterpret_cast<float*>(c)[index] = value;
  } else {
    reinterpret_cast<u16*>(c)[index] = static_cast<u16>(pack_pair<kC>(value, 0.0f));
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(ridge::cuda::kThreads, 2)
    ridge_symmetric_plain(const ridge::cuda::PlainParameters p) {
  using namespace ridge::cuda;
  __shared__ Slice rows, columns;
  const u32 side = static_cast<u32>((p.n + kTile - 1) / kTile);
  const TriangleTile tile = triangle_tile<1>(side, side, min(8u, side), blockIdx.x);
  const u8* const a = p.a + blockIdx.y * p.a_matrix * kBytes<kA>;
  const i64 first_row = tile.row * static_cast<i64>(kTile), first_column = tile.col * static_cast<i64>(kTile);
  const u32 own_row = threadIdx.x / (kTile / kSide) * kSide, own_column = threadIdx.x % (kTile / kSide) * kSide;
  float sums[kSide][kSide] = {};
  for (i64 term = 0; term < p.k; term += kDepth) {
    read_slice(rows, a, p, first_row, term);
    read_slice(columns, a, p, first_column, term);
    __syncthreads();
#pragma unroll
    for (u32 depth = 0; depth < kDepth; ++depth) {
      float x[kSide], y[kSide];
#pragma unroll
      for (u32 i = 0; i < kSide; ++i) {
        x[i] = rows[depth][own_row + i];
        y[i] = columns[depth][own_column + i];
      }
#pragma unroll
      for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
        for (u32 j = 0; j < kSide; ++j) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
  u8* const c = p.c + blockIdx.y * p.c_matrix * kBytes<kC>;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const i64 row = first_row + own_row + i, column = first_column + own_column + j;
      if (column < row || column >= p.n) continue;
      float value = p.alpha * sums[i][j];
      if constexpr (kResidual) {
        const u8* const residual = p.residual + blockIdx.y * p.residual_matrix * kBytes<kC>;
        value = fmaf(p.beta, load_output<kC>(residual, row * p.residual_row + column), value);
      }
      if (row == column) value += p.shift;
      store(c, row * p.c_row + column, value);
      if (row != column) store(c, column * p.c_row + row, value);
    }
  }
}
