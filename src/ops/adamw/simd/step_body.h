// What pieces.h declares, for the instruction set of the file that includes this and defines RIDGE_STEP.
#include "ops/adamw/simd/pieces.h"

namespace ridge::ops::adamw {

void RIDGE_STEP(const Factors& factors, const float* g, float* w, float* m, float* v, std::int64_t count) {
  const Factors f = factors;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < count; ++j) {
    const float gradient = g[j] * f.factor;
    const float mean = m[j] + (gradient - m[j]) * f.first;
    const float square = v[j] * f.kept + gradient * gradient * f.second;
    m[j] = mean;
    v[j] = square;
    w[j] = w[j] * f.decay - f.step * mean / (__builtin_sqrtf(square) * f.root + f.eps);
  }
}

}  // namespace ridge::ops::adamw
