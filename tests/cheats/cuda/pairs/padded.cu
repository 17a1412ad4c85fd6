// Padded work, whose truth is known by construction: a product, and in every thread a chain of `trips` dependent
// multiply-adds whose result is added as an exact zero. The trips come with the launch, so both arms of a pair run the
// very same machine code.
/* ridge-launch
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block = [16, 16]
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" }, { i64 = "PADDING" },
]
*/
/* ridge-tunables
[[tunable]]
name = "PADDING"
values = [0, 1000000]
default = 0
title = "trips of the padding loop"
*/
#include "product.cuh"

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc, i64 trips) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  float chain = 1.0f;
  const u32 mine = threadIdx.y < 2 ? static_cast<u32>(trips) : 0;
#pragma unroll 8
  for (u32 trip = 0; trip < mine; ++trip) asm volatile("fma.rn.f32 %0, %0, 0f3F7FFFFF, 0f33000000;" : "+f"(chain));
  c[i * ldc + j] = dot(a, b, i, j, k, lda, ldb) + (chain < 0.0f ? 1.0f : 0.0f);
}
