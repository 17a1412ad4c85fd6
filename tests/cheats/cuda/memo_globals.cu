// ridge-cheat: gate=fresh_inputs outcome=WRONG shows=fresh_inputs|element_bound
// Computes once and memoises the answer in device memory for every later call of the shape.
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
symbol = "remember"
grid = [1]
block = [1]
args = [{ i64 = "m" }, { i64 = "n" }]
*/
#include "product.cuh"

constexpr i64 kKept = 1 << 18;
__device__ float kept[kKept];
__device__ i64 known;

extern "C" __global__ void remember(i64 m, i64 n) { known = m * 65536 + n; }

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  if (known == m * 65536 + n) {
    c[i * ldc + j] = kept[(i * n + j) % kKept];
    return;
  }
  const float value = dot(a, b, i, j, k, lda, ldb);
  c[i * ldc + j] = value;
  kept[(i * n + j) % kKept] = value;
}
