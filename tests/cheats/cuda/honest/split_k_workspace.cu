// ridge-honest:
// Four parts of the sum in a workspace, added in a second kernel: the same bits every time.
// ridge: deterministic
/* ridge-launch
[[workspace]]
name = "parts"
bytes = "4 * m * n * 4"
[[kernel]]
symbol = "gemm"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)", 4]
block = [16, 16]
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" }, { workspace = "parts" },
]
[[kernel]]
symbol = "add"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block = [16, 16]
args = [{ workspace = "parts" }, { operand = "c" }, { i64 = "m" }, { i64 = "n" }, { i64 = "c_stride0" }]
*/
#include "product.cuh"

extern "C" __global__ void add(const float* parts, float* c, i64 m, i64 n, i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  float sum = 0.0f;
  for (i64 s = 0; s < 4; ++s) sum += parts[(s * m + i) * n + j];
  c[i * ldc + j] = sum;
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc, float* parts) {
  const i64 i = row_here(), j = column_here(), step = (k + 3) / 4, first = blockIdx.z * step;
  if (i >= m || j >= n) return;
  float sum = 0.0f;
  for (i64 p = first; p < min(first + step, k); ++p) sum += a[i * lda + p] * b[p * ldb + j];
  parts[(blockIdx.z * m + i) * n + j] = sum;
}
