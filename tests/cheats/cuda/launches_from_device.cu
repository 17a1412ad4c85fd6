// ridge-cheat: gate=build outcome=COMPILE shows=build|device_calls
// Starts a second grid from the device, which would go on after the first one ended.
/* ridge-launch
[[kernel]]
symbol = "gemm"
grid = [1]
block = [1]
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" },
]
*/
#include "product.cuh"

__global__ void product(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 ldc) {
  const i64 i = row_here(), j = column_here();
  if (i < m && j < n) c[i * ldc + j] = dot(a, b, i, j, k, lda, ldb);
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  product<<<dim3(static_cast<u32>((n + 15) / 16), static_cast<u32>((m + 15) / 16)), dim3(16, 16)>>>(a, b, c, m, n, k,
                                                                                                    lda, ldb, ldc);
}
