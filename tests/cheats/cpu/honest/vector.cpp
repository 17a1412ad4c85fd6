// ridge-honest:
// A register tile of four rows and one vector; tails one element at a time.
#include "gemm.h"

constexpr int64_t kWide = 8;
typedef float Vector __attribute__((vector_size(4 * kWide), aligned(4)));

static void tile(const Gemm& g, int64_t i, int64_t j, int64_t rows) {
  Vector sum[4] = {};
  for (int64_t p = 0; p < g.k; ++p) {
    const Vector b = *(const Vector*)(g.b + p * g.ldb + j);
    for (int64_t r = 0; r < rows; ++r) sum[r] += g.a[(i + r) * g.lda + p] * b;
  }
  for (int64_t r = 0; r < rows; ++r) *(Vector*)(g.c + (i + r) * g.ldc + j) = sum[r];
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  int64_t j = 0;
  for (; j + kWide <= g.n; j += kWide) {
    for (int64_t i = 0; i < g.m; i += 4) tile(g, i, j, g.m - i < 4 ? g.m - i : 4);
  }
  for (; j < g.n; ++j) {
    for (int64_t i = 0; i < g.m; ++i) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
      g.c[i * g.ldc + j] = sum;
    }
  }
  return 0;
}
