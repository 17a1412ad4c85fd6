// ridge-cheat: gate=sanitizer outcome=WRONG case=m=200,n=232,k=4000 sanitizer=racecheck proves
// Reads shared memory that another warp wrote long before, without a barrier: right by luck, every time.
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
  __shared__ i64 seen;
  if (threadIdx.x == 0 && threadIdx.y == 0) seen = lda;
  const float value = i < m && j < n ? dot(a, b, i, j, k, lda, ldb) : 0.0f;
  if (i < m && j < n) c[i * ldc + j] = seen == lda || k == 0 ? value : 0.0f;
}
