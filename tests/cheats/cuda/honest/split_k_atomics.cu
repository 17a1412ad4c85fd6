// ridge-honest:
// Eight parts of the sum, added atomically: legal, and not the same bits twice. (atomicAdd would flush subnormal sums.)
/* ridge-launch
[[kernel]]
symbol = "clear"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block = [16, 16]
args = [{ operand = "c" }, { i64 = "m" }, { i64 = "n" }, { i64 = "c_stride0" }]
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)", 8]
block = [16, 16]
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" },
]
*/
#include "product.cuh"

extern "C" __global__ void clear(float* c, i64 m, i64 n, i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i < m && j < n) c[i * ldc + j] = 0.0f;
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here(), step = (k + 7) / 8, first = blockIdx.z * step;
  if (i >= m || j >= n) return;
  float sum = 0.0f;
  for (i64 p = first; p < min(first + step, k); ++p) sum += a[i * lda + p] * b[p * ldb + j];
  add_to(&c[i * ldc + j], sum);
}
