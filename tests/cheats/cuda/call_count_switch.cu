// ridge-cheat: gate=every_call outcome=WRONG shows=element_bound launches=60 proves
// Right for as long as a check lasts, then leaves half of the sum out.
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

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  c[i * ldc + j] = dot(a, b, i, j, calls >= 48 ? k / 2 : k, lda, ldb);
}
