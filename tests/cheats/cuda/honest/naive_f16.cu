// ridge-honest: case=m=200,n=232,k=264,dtype=f16
// f16 inputs and output, sums in f32.
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
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) {
    float x, y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(a[i * lda + p]));
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(b[p * ldb + j]));
    sum += x * y;
  }
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(c[i * ldc + j]) : "f"(sum));
}
