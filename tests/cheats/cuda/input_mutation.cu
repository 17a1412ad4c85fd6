// ridge-cheat: gate=input_intact outcome=WRONG proves
// Sums half of the terms, and clears the other half of the inputs so that a check against them agrees.
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
[[kernel]]
symbol = "clear"
grid = ["ceil_div(max(m, n), 16)", "ceil_div(k, 16)"]
block = [16, 16]
args = [
  { operand = "a" }, { operand = "b" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" }, { i64 = "a_stride0" }, { i64 = "b_stride0" },
]
*/
#include "product.cuh"

extern "C" __global__ void clear(float* a, float* b, i64 m, i64 n, i64 k, i64 lda, i64 ldb) {
  const i64 p = k / 2 + row_here(), other = column_here();
  if (p >= k) return;
  if (other < m) a[other * lda + p] = 0.0f;
  if (other < n) b[p * ldb + other] = 0.0f;
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  c[i * ldc + j] = dot(a, b, i, j, k / 2, lda, ldb);
}
