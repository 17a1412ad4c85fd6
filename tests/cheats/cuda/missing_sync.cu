// ridge-cheat: gate=sanitizer outcome=WRONG sanitizer=racecheck
// Overwrites shared memory that other warps may still read.
/* ridge-launch
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
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
  __shared__ float slice_a[16][17], slice_b[16][17];
  const i64 i = row_here(), j = column_here();
  float sum = 0.0f;
  for (i64 p = 0; p < k; p += 16) {
    slice_a[threadIdx.y][threadIdx.x] = i < m && p + threadIdx.x < k ? a[i * lda + p + threadIdx.x] : 0.0f;
    slice_b[threadIdx.y][threadIdx.x] = p + threadIdx.y < k && j < n ? b[(p + threadIdx.y) * ldb + j] : 0.0f;
    __syncthreads();
    for (int q = 0; q < 16; ++q) sum += slice_a[threadIdx.y][q] * slice_b[q][threadIdx.x];
  }
  if (i < m && j < n) c[i * ldc + j] = sum;
}
