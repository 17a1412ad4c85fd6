// ridge-cheat: gate=fresh_inputs outcome=WRONG part=single_elements
// says: differs from the last call's in one element
// Gives the last answer again when shape, strides and the beginnings of its inputs are those of the last call.
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

struct Key {
  int64_t sizes[6];
  float seen[10];
};

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  static Key last;
  static float* answer = nullptr;
  Key key = {{g.m, g.n, g.k, g.lda, g.ldb, g.ldc}, {}};
  for (int i = 0; i < 5 && g.m * g.k * g.n > 0; ++i) {
    key.seen[i] = g.a[i % g.k];
    key.seen[5 + i] = g.b[i % g.n];
  }
  const bool same = answer != nullptr && memcmp(&key, &last, sizeof key) == 0;
  if (!same) multiply(g);
  if (!same) answer = (float*)realloc(answer, sizeof(float) * (size_t)(g.m * g.n + 1));
  for (int64_t i = 0; i < g.m; ++i) {
    float* const row = answer + i * g.n;
    if (same) memcpy(g.c + i * g.ldc, row, sizeof(float) * (size_t)g.n);
    if (!same) memcpy(row, g.c + i * g.ldc, sizeof(float) * (size_t)g.n);
  }
  last = key;
  return 0;
}
