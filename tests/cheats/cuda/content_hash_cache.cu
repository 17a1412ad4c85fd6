// ridge-cheat: gate=fresh_inputs outcome=WRONG shows=fresh_inputs|element_bound
// Remembers answers by a fingerprint of the inputs: the signs of two elements.
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
args = [{ operand = "a" }, { operand = "b" }]
*/
#include "product.cuh"

constexpr i64 kKept = 1 << 17;
__device__ float kept[4][kKept];
__device__ int known;

extern "C" __global__ void remember(const float* a, const float* b) { known |= 1 << ((a[0] < 0) + 2 * (b[0] < 0)); }

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  const int print = (a[0] < 0) + 2 * (b[0] < 0);
  if ((known >> print & 1) != 0 && i * n + j < kKept) {
    c[i * ldc + j] = kept[print][i * n + j];
    return;
  }
  const float value = dot(a, b, i, j, k, lda, ldb);
  c[i * ldc + j] = value;
  if (i * n + j < kKept) kept[print][i * n + j] = value;
}
