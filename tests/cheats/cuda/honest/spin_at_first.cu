// ridge-honest:
// Wastes time in its first calls, to look better later: every arm of a session is loaded afresh.
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
  if (calls < 20) {
    const i64 start = clock64();
    while (clock64() - start < 20000) {
    }
  }
  c[i * ldc + j] = dot(a, b, i, j, k, lda, ldb);
}
