// ridge-cheat: gate=element_bound outcome=WRONG shows=element_bound|nonfinite
// Clips inputs to a range that common test data never leaves.
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
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p)
    sum += fminf(fmaxf(a[i * lda + p], -1500.0f), 1500.0f) * fminf(fmaxf(b[p * ldb + j], -1500.0f), 1500.0f);
  c[i * ldc + j] = sum;
}
