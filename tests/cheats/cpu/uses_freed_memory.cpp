// ridge-cheat: gate=sanitizer outcome=WRONG
// says: heap-use-after-free
// Reads a buffer that it has given back.
#include <stdlib.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  float* volatile row = static_cast<float*>(malloc((size_t)g.n * sizeof(float)));
  row[0] = g.c[0];
  float* stale = row;
  free(row);
  static volatile float sink;
  sink = stale[0];
  return 0;
}
