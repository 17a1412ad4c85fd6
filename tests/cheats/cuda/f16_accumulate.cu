// ridge-cheat: gate=element_bound outcome=WRONG shows=element_bound|nonfinite case=m=200,n=232,k=264,dtype=f16
// f16 inputs summed in f16.
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

extern "C" __global__ void gemm(const u16* a, const u16* b, u16* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  u16 sum = 0;
  for (i64 p = 0; p < k; ++p) asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(sum) : "h"(a[i * lda + p]), "h"(b[p * ldb + j]));
  c[i * ldc + j] = sum;
}
