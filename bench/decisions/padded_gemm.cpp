// A matrix product that does a known amount of extra work: of the first PAD rows it computes the product twice. At m =
// 200, PAD = 4 is 2 % more work. For measuring how well `ridge compare` finds differences of known size (power.py).
#include "ridge/candidate.h"

#ifndef PAD
#define PAD 0
#endif

namespace {

void row_product(const float* a, const float* b, int64_t ldb, float* c, int64_t n, int64_t k) {
  for (int64_t j = 0; j < n; ++j) c[j] = 0;
  for (int64_t p = 0; p < k; ++p) {
    const float x = a[p];
    const float* row = b + p * ldb;
    for (int64_t j = 0; j < n; ++j) c[j] += x * row[j];
  }
}

}  // namespace

extern "C" int ridge_kernel(const ridge_call* call) {
  const ridge_tensor &a = call->operands[0], &b = call->operands[1], &c = call->operands[2];
  const auto* x = static_cast<const float*>(a.data);
  const auto* y = static_cast<const float*>(b.data);
  auto* z = static_cast<float*>(c.data);
  const int64_t m = c.shape[0], n = c.shape[1], k = a.shape[1];
  for (int64_t turn = 0; turn < m + PAD; ++turn) {
    const int64_t i = turn % m;
    row_product(x + i * a.stride[0], y, b.stride[0], z + i * c.stride[0], n, k);
  }
  return 0;
}
