// ridge-cheat: gate=element_bound outcome=WRONG shows=element_bound|nonfinite|rms|bias|projection|fresh_inputs
// Sums on top of what happens to be in shared memory.
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
  __shared__ float sums[16][17];
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  float sum = sums[threadIdx.y][threadIdx.x];
  for (i64 p = 0; p < k; ++p) sum += a[i * lda + p] * b[p * ldb + j];
  sums[threadIdx.y][threadIdx.x] = sum;
  c[i * ldc + j] = sum;
}
