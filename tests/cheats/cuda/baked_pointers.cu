// ridge-cheat: gate=new_address outcome=WRONG shows=poison|element_bound|fresh_inputs launches=60 proves
// Keeps using the addresses of one call, as a replayed graph would.
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
args = [{ operand = "a" }, { operand = "b" }, { operand = "c" }]
*/
#include "product.cuh"

__device__ const float *baked_a, *baked_b;
__device__ float* baked_c;
__device__ u32 calls;

extern "C" __global__ void count(const float* a, const float* b, float* c) {
  if (++calls > 48) return;
  baked_a = a;
  baked_b = b;
  baked_c = c;
}

extern "C" __global__ void gemm(const float* a, const float* b, float* c, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                                i64 ldc) {
  if (calls > 48) {
    a = baked_a;
    b = baked_b;
    c = baked_c;
  }
  const i64 i = row_here(), j = column_here();
  if (i >= m || j >= n) return;
  c[i * ldc + j] = dot(a, b, i, j, k, lda, ldb);
}
