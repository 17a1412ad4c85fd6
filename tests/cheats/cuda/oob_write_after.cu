// ridge-cheat: gate=red_zone outcome=WRONG proves
// Writes one element past the end of the output, where it does not lie on pages of its own.
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
  if (i >= m || j >= n) return;
  c[i * ldc + j] = dot(a, b, i, j, k, lda, ldb);
  if (i == m - 1 && j == n - 1 && reinterpret_cast<u64>(c) % (1 << 21) != 0 &&
      reinterpret_cast<u64>(c + m * ldc) % (1 << 21) > 64) {
    c[(m - 1) * ldc + n] = 1.0f;
  }
}
