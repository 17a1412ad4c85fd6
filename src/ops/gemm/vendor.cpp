#include "ops/gemm/vendor.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace ridge::ops::gemm {
namespace {

constexpr std::int64_t kLimit = std::numeric_limits<int>::max();

// A row stride that BLAS accepts: that of a single row is never used but must not be smaller than the row.
int leading(const TensorView& view) { return static_cast<int>(std::max(view.stride[0], view.shape[1])); }

}  // namespace

Refusal refuse_by_size(const Shape& s) {
  if (Refusal refusal = refuse_epilogue(s, "its interface")) return refusal;
  if (s.m == 0 || s.n == 0 || s.k == 0) {
    return fmt::format("m={} n={} k={}: an empty product is left to our own code", s.m, s.n, s.k);
  }
  if (s.m > kLimit || s.n > kLimit || s.k > kLimit) {
    return fmt::format("m={} n={} k={}: its interface has 32-bit sizes, at most {}", s.m, s.n, s.k, kLimit);
  }
  return std::nullopt;
}

Refusal refuse_all_but_f32(const Shape& s, std::string_view library) {
  if (s.dtype == DType::kF32) return std::nullopt;
  return fmt::format("dtype={}: {} has it for f32 only", to_string(s.dtype), library);
}

Status check_strides(const Problem& problem, std::span<const TensorView> operands) {
  for (const TensorView& view : operands) {
    if (view.stride[0] > kLimit) {
      return with_hint(make_error(ErrorCode::kUnsupported, "{}: a row stride of {} exceeds the 32-bit interface",
                                  problem.problem_case.text(), view.stride[0]),
                       "use cpu_simd");
    }
  }
  return ok_status();
}

Status run_cblas(CblasSgemm* sgemm, const Problem& problem, std::span<const TensorView> operands) {
  RIDGE_CHECK_OK(check_strides(problem, operands));
  constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
  const Shape s = shape_of(problem);
  sgemm(kRowMajor, s.trans_a ? kTransposed : kAsIs, s.trans_b ? kTransposed : kAsIs, static_cast<int>(s.m),
        static_cast<int>(s.n), static_cast<int>(s.k), 1.0f, static_cast<const float*>(operands[0].data),
        leading(operands[0]), static_cast<const float*>(operands[1].data), leading(operands[1]),
        s.accumulate ? 1.0f : 0.0f, static_cast<float*>(operands[2].data), leading(operands[2]));
  return ok_status();
}

}  // namespace ridge::ops::gemm
