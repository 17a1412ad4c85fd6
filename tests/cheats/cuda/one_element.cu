// ridge-cheat: gate=full_draw outcome=WRONG shows=element_bound case=m=200,n=232,k=264,dtype=bf16 launches=900 proves
// One element of a timed output is off by two units in the last place: too little for a projection of bf16.
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
[[kernel]]
symbol = "count"
grid = [1]
block = [1]
args = []
*/
#include "product.cuh"

__device__ u32 calls;
extern "C" __global__ void count() { ++calls; }

extern "C" __global__ void gemm(const u16* a, const u16* b, u16* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  const u16 value = to_bf16(dot_bf16(a, b, i, j, k, lda, ldb));
  c[i * ldc + j] = calls >= 48 && i == 3 && j == 5 ? value + 2 : value;
}
