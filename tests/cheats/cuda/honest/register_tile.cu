// ridge-honest:
// Tiles of 64 x 64, 4 x 4 elements per thread.
/* ridge-launch
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 64)", "ceil_div(m, 64)"]
block = [16, 16]
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" },
]
*/
#include "product.cuh"

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  __shared__ float slice_a[16][65], slice_b[16][65];
  const i64 m0 = blockIdx.y * 64ll, n0 = blockIdx.x * 64ll;
  const int t = static_cast<int>(threadIdx.y * 16 + threadIdx.x);
  float sums[4][4] = {};
  for (i64 p = 0; p < k; p += 16) {
    for (int s = t; s < 1024; s += 256) {
      slice_a[s % 16][s / 16] = m0 + s / 16 < m && p + s % 16 < k ? a[(m0 + s / 16) * lda + p + s % 16] : 0.0f;
      slice_b[s / 64][s % 64] = p + s / 64 < k && n0 + s % 64 < n ? b[(p + s / 64) * ldb + n0 + s % 64] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 16; ++q) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
#pragma unroll
        for (int y = 0; y < 4; ++y) sums[x][y] += slice_a[q][threadIdx.y + 16 * x] * slice_b[q][threadIdx.x + 16 * y];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int x = 0; x < 4; ++x) {
#pragma unroll
    for (int y = 0; y < 4; ++y) {
      const i64 i = m0 + threadIdx.y + 16 * x, j = n0 + threadIdx.x + 16 * y;
      if (i < m && j < n) c[i * ldc + j] = sums[x][y];
    }
  }
}
