// ridge-honest:
// A fixed number of blocks that walk over the output.
/* ridge-launch
[[kernel]]
symbol = "gemm"
grid = ["4 * sm_count"]
block = [128]
args = [
  { operand = "a" }, { operand = "b" }, { operand = "c" },
  { i64 = "m" }, { i64 = "n" }, { i64 = "k" },
  { i64 = "a_stride0" }, { i64 = "b_stride0" }, { i64 = "c_stride0" },
]
*/
#include "product.cuh"

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  for (i64 e = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; e < m * n;
       e += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 i = e / n, j = e % n;
    c[i * ldc + j] = dot(a, b, i, j, k, lda, ldb);
  }
}
