// ridge-cheat: gate=rms outcome=WRONG case=m=16,n=256,k=6000 proves=bias|held_out
// Each f32 input as two bf16, without the product of the two small parts: 16 bits of the 24.
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

__device__ float shorter(float x) {
  u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return from_bf16(h);
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) {
    const float x = a[i * lda + p], y = b[p * ldb + j];
    const float xh = shorter(x), yh = shorter(y), xl = xh - xh == 0.0f ? shorter(x - xh) : 0.0f,
                yl = yh - yh == 0.0f ? shorter(y - yh) : 0.0f;
    const float large = xh * yh;
    sum += large;
    if (large - large == 0.0f) sum += xh * yl + xl * yh;
  }
  c[i * ldc + j] = sum;
}
