// ridge-honest:
// Sums by halves: another order, and a smaller error.
#include "gemm.h"

static float sum(const Gemm& g, int64_t i, int64_t j, int64_t first, int64_t end) {
  if (end - first <= 4) {
    float total = 0;
    for (int64_t p = first; p < end; ++p) total += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
    return total;
  }
  const int64_t middle = first + (end - first) / 2;
  return sum(g, i, j, first, middle) + sum(g, i, j, middle, end);
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = sum(g, i, j, 0, g.k);
  }
  return 0;
}
