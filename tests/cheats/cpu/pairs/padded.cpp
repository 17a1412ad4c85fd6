// ridge-honest: flags=-O2
// A kernel with a known amount of extra work: PAD_PERMILLE thousandths of its rows are computed a second time, spread
// evenly over the matrix. Two builds of it are a pair whose true ratio of times is
//   (1000 + PAD_PERMILLE of one) / (1000 + PAD_PERMILLE of the other)
// by construction, because the time of a row does not depend on which row it is. At least 50 in the baseline, so that
// there is work to take away.
#include "gemm.h"

#ifndef PAD_PERMILLE
#define PAD_PERMILLE 50
#endif

__attribute__((noinline)) static void one_row(const Gemm& g, int64_t i) {
  for (int64_t j = 0; j < g.n; ++j) {
    float sum = 0;
    for (int64_t p = 0; p < g.k; ++p) sum += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
    g.c[i * g.ldc + j] = sum;
  }
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  int64_t owed = 0;
  for (int64_t i = 0; i < g.m; ++i) {
    one_row(g, i);
    owed += PAD_PERMILLE;
    for (; owed >= 1000; owed -= 1000) {
      asm volatile("" ::: "memory");  // the compiler cannot know that nothing has changed
      one_row(g, i);
    }
  }
  return 0;
}
