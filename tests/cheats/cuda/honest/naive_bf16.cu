// ridge-honest: case=m=200,n=232,k=264,dtype=bf16
// bf16 inputs and output, sums in f32.
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
  c[i * ldc + j] = to_bf16(dot_bf16(a, b, i, j, k, lda, ldb));
}
