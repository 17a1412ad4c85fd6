// ridge-honest:
// Chooses its block size by trying both in the first call.
#include <chrono>
#include <initializer_list>

#include "gemm.h"

static void product(const Gemm& g, int64_t block) {
  for (int64_t first = 0; first < g.n; first += block) {
    Gemm part = g;
    part.b += first;
    part.c += first;
    part.n = g.n - first < block ? g.n - first : block;
    multiply(part);
  }
}

extern "C" int ridge_kernel(const ridge_call* call) {
  static int64_t block = 0;
  const Gemm g = gemm_of(call);
  if (block == 0) {
    double best = 1e9;
    for (const int64_t size : {4, 16}) {
      const auto start = std::chrono::steady_clock::now();
      product(g, size);
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (took < best) block = size;
      best = took < best ? took : best;
    }
  }
  product(g, block);
  return 0;
}
