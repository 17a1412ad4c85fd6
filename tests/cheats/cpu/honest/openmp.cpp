// ridge-honest: flags=-fopenmp
// Rows shared out by OpenMP.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
#pragma omp parallel for
  for (int64_t i = 0; i < g.m; ++i) {
    Gemm row = g;
    row.m = 1;
    row.a += i * g.lda;
    row.c += i * g.ldc;
    multiply(row);
  }
  return 0;
}
