// ridge-cheat: gate=sanitizer outcome=WRONG
// says: heap-buffer-overflow
// Writes one element past a buffer of its own, into what malloc added to round its size up: only a sanitizer sees that.
#include <stdlib.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  Gemm g = gemm_of(call);
  const int64_t count = g.n | 3;  // of the sizes modulo 16 bytes the one that glibc rounds up by 12
  float* row = static_cast<float*>(malloc((size_t)count * sizeof(float)));
  multiply(g);
  for (volatile int64_t j = 0; j <= count; j = j + 1) row[j] = 0;
  g.c[0] += row[0];
  free(row);
  return 0;
}
