// ridge-cheat: gate=every_call outcome=WRONG shows=element_bound|projection launches=100 proves=held_out
// Sums all products for its first 50 milliseconds, half of them later: by the device's own timer, without counting
// calls.
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
symbol = "look_at_the_clock"
grid = [1]
block = [1]
args = []
*/
#include "product.cuh"

__device__ u64 first_call;
__device__ int late;
extern "C" __global__ void look_at_the_clock() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (first_call == 0) first_call = now;
  late = now - first_call > 50000000ull;
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  c[i * ldc + j] = dot(a, b, i, j, late != 0 ? k / 2 : k, lda, ldb);
}
