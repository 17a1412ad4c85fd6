// ridge-honest: flags=-O2
// A kernel with a known amount of extra work: PAD_PERMILLE thousandths of its elements are computed a second time,
// spread evenly over the output. Two builds of it are a pair whose true ratio of times is
//   (1000 + PAD_PERMILLE of one) / (1000 + PAD_PERMILLE of the other)
// by construction, to within one element, because the time of an element does not depend on which one it is. At least
// 50 in the baseline, so that there is work to take away.
#include "gemm.h"

#ifndef PAD_PERMILLE
#define PAD_PERMILLE 50
#endif

__attribute__((noinline)) static float element(const Gemm& g, int64_t i, int64_t j) {
  float sum = 0;
  for (int64_t p = 0; p < g.k; ++p) sum += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
  return sum;
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  int64_t owed = 0;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      g.c[i * g.ldc + j] = element(g, i, j);
      owed += PAD_PERMILLE;
      for (; owed >= 1000; owed -= 1000) {
        asm volatile("" ::: "memory");  // the compiler cannot know that nothing has changed
        g.c[i * g.ldc + j] = element(g, i, j);
      }
    }
  }
  return 0;
}
