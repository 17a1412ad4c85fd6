// ridge-cheat: gate=rerun outcome=WRONG proves
// Declares itself deterministic and lets the clock choose the order of its sums.
// ridge: deterministic
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
  u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) {
    const i64 q = (ns >> 5 & 1) != 0 ? p : k - 1 - p;
    sum += a[i * lda + q] * b[q * ldb + j];
  }
  c[i * ldc + j] = sum;
}
