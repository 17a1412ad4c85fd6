// ridge-cheat: gate=sanitizer outcome=WRONG
// says: heap-buffer-overflow
// Writes one element past a buffer of its own.
#include <stdlib.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  Gemm g = gemm_of(call);
  float* row = static_cast<float*>(malloc((size_t)g.n * sizeof(float)));
  multiply(g);
  for (volatile int64_t j = 0; j <= g.n; j = j + 1) row[j] = 0;
  g.c[0] += row[0];
  free(row);
  return 0;
}
