// Candidate sources for the tests: one that is right, and one per way of being wrong.
#pragma once

#include <string>

#include "record/candidate.h"

namespace ridge::evaluate::testing {

// `extra` goes before the kernel; `before` and `after` into it, around a correct matrix product.
inline record::Candidate gemm(const std::string& extra = {}, const std::string& before = {},
                              const std::string& after = {}) {
  record::Candidate candidate;
  candidate.op = "gemm";
  candidate.name = "test kernel";
  candidate.sources = {{"kernel.cpp", R"(#include "ridge/candidate.h"
#include <stddef.h>
)" + extra + R"(
static void product(const float* a, const float* b, float* c, const ridge_call* call, int64_t m, int64_t n, int64_t k) {
  const int64_t lda = call->operands[0].stride[0], ldb = call->operands[1].stride[0], ldc = call->operands[2].stride[0];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = 0;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
  }
}
extern "C" int ridge_kernel(const ridge_call* call) {
  float* a = (float*)call->operands[0].data; float* b = (float*)call->operands[1].data; float* c = (float*)call->operands[2].data;
  const int64_t m = call->params[0], n = call->params[1], k = call->params[2];
  (void)a; (void)b; (void)c; (void)m; (void)n; (void)k;
)" + before + "\n  product(a, b, c, call, m, n, k);\n" +
                                          after + "\n  return 0;\n}\n"}};
  return candidate;
}

}  // namespace ridge::evaluate::testing
