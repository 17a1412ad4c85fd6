// ridge-cheat: gate=element_bound outcome=WRONG case=m=200,n=232,k=264,dtype=bf16
// bf16 inputs rounded to e4m3 first.
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
  u16 pair;
  u32 halves;
  float value;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<u16>(halves)));
  return value;
}

extern "C" __global__ void gemm(const u16* a, const u16* b, u16* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  float sum = 0.0f;
  for (i64 p = 0; p < k; ++p) sum += shorter(from_bf16(a[i * lda + p])) * shorter(from_bf16(b[p * ldb + j]));
  c[i * ldc + j] = to_bf16(sum);
}
