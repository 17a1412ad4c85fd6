// ridge-honest:
// Rows of B read four elements at a time; the plan says what that needs.
/* ridge-launch
[[needs]]
expression = "n % 4 == 0 && b_stride0 % 4 == 0 && c_stride0 % 4 == 0"
reason = "B and C are addressed 16 bytes at a time"
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 64)", "ceil_div(m, 16)"]
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
  const i64 i = row_here(), j = 4 * column_here();
  if (i >= m || j >= n) return;
  float sums[4] = {};
  for (i64 p = 0; p < k; ++p) {
    const float4 y = *reinterpret_cast<const float4*>(b + p * ldb + j);
    const float x = a[i * lda + p];
    sums[0] += x * y.x;
    sums[1] += x * y.y;
    sums[2] += x * y.z;
    sums[3] += x * y.w;
  }
  *reinterpret_cast<float4*>(c + i * ldc + j) = {sums[0], sums[1], sums[2], sums[3]};
}
