// ridge-honest: case=m=33,n=40,k=21,dtype=bf16
// bf16 in and out, fp32 sums, rounded once to nearest even.
#include "ridge/candidate.h"

static float widen(uint16_t code) {
  const uint32_t bits = (uint32_t)code << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t narrow(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const ridge_tensor *a = &call->operands[0], *b = &call->operands[1], *c = &call->operands[2];
  const int64_t m = call->params[0], n = call->params[1], k = call->params[2];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += widen(((const uint16_t*)a->data)[i * a->stride[0] + p]) *
               widen(((const uint16_t*)b->data)[p * b->stride[0] + j]);
      }
      ((uint16_t*)c->data)[i * c->stride[0] + j] = narrow(sum);
    }
  }
  return 0;
}
