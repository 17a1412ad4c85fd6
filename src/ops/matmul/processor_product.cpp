#include "ops/matmul/processor_product.h"

#include "ops/matmul/amx/driver.h"

namespace ridge::ops::matmul {

simd::Arguments arguments_of(const TensorView& a, bool trans_a, const TensorView& b, bool trans_b, const TensorView& c,
                             bool accumulate) {
  simd::Arguments g;
  g.m = c.shape[0];
  g.n = c.shape[1];
  g.k = a.shape[trans_a ? 0 : 1];
  g.dtype = a.dtype;
  g.out = c.dtype;
  g.a = a.data;
  g.a_stride = a.stride[0];
  g.trans_a = trans_a;
  g.b = b.data;
  g.b_stride = b.stride[0];
  g.trans_b = trans_b;
  g.c = c.data;
  g.c_stride = c.stride[0];
  g.accumulate = accumulate;
  return g;
}

bool multiplies_bf16() { return amx::unusable().empty() || simd::bf16dot_at_full_rate(); }

bool multiply(const simd::Arguments& arguments, int threads) {
  if (arguments.dtype == DType::kBf16) {
    if (amx::unusable().empty()) return amx::run(arguments, threads);
    if (simd::bf16dot_at_full_rate()) return simd::run(*simd::bf16dot_kernels(), arguments, threads);
  }
  return simd::run(simd::best_kernels(), arguments, threads);
}

}  // namespace ridge::ops::matmul
