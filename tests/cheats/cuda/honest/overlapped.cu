// ridge-honest: case=m=200,n=232,k=264
// Two kernels of which the second is launched before the first has ended, and waits as it must.
/* ridge-launch
[[workspace]]
name = "copy"
bytes = "m * k * 4"
[[kernel]]
symbol = "duplicate"
grid = ["ceil_div(k, 16)", "ceil_div(m, 16)"]
block = [16, 16]
args = [{ operand = "a" }, { workspace = "copy" }, { i64 = "m" }, { i64 = "k" }, { i64 = "a_stride0" }]
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block = [16, 16]
overlap_previous = true
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" }, { workspace = "copy" },
]
*/
#include "product.cuh"

extern "C" __global__ void duplicate(const float* a, float* copy, i64 m, i64 k, i64 lda) {
  asm volatile("griddepcontrol.launch_dependents;");
  const i64 i = row_here(), p = column_here();
  if (i < m && p < k) copy[i * k + p] = a[i * lda + p];
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc, const float* copy) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  c[i * ldc + j] = __float_as_uint(copy[i * k]) == __float_as_uint(a[i * lda]) ? dot(a, b, i, j, k, lda, ldb) : 0.0f;
}
