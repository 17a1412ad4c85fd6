// The definition, group by group, in fp64 from codes and scales as stored. Shares no code with any kernel.
#include "base/error.h"
#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

ProductModel model_of(const CodedProduct& product) { return coded_model(product, kUnitTerms); }

// The operands of a call, with rows of A and their scales behind each other where an index finds them.
struct Operands {
  std::vector<TensorView> views;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;

  Operands(const Shape& s, std::span<const TensorView> given, std::span<const std::int64_t> offsets)
      : views(given.begin(), given.end()) {
    if (!s.gather) return;
    const auto rows = static_cast<std::size_t>(s.rows), k = static_cast<std::size_t>(s.k);
    const bool by_group = s.scaling == GroupedFp8Scaling::kTensor, by_row = s.scaling == GroupedFp8Scaling::kRow;
    const std::size_t steps = by_group ? 0 : by_row ? 1 : static_cast<std::size_t>(views[kScaleA].shape[0]);
    codes.assign(rows * k + 1, 0), scales.assign(rows * steps + 1, 0.0F);
    const TensorView &a = given[kA], &scale = given[kScaleA];
    const std::int64_t step_stride = by_row ? 0 : scale.stride[0];
    for (auto at = static_cast<std::size_t>(offsets.front()); at < static_cast<std::size_t>(offsets.back()); ++at) {
      const std::int64_t source = static_cast<const std::int32_t*>(given[s.index()].data)[at];
      for (std::size_t p = 0; source >= 0 && p < k; ++p) {
        codes[at * k + p] =
            static_cast<const std::uint8_t*>(a.data)[source * a.stride[0] + static_cast<std::int64_t>(p)];
      }
      for (std::size_t step = 0; source >= 0 && step < steps; ++step) {
        const std::int64_t place = static_cast<std::int64_t>(step) * step_stride + source;
        scales[step * rows + at] = static_cast<const float*>(scale.data)[place];
      }
    }
    views[kA] = TensorView::contiguous(codes.data(), a.dtype, {s.rows, s.k});
    if (by_group) return;
    views[kScaleA] = by_row ? TensorView::contiguous(scales.data(), DType::kF32, {s.rows})
                            : TensorView::contiguous(scales.data(), DType::kF32, {scale.shape[0], s.rows});
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
};

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  RIDGE_TRY(offsets, offsets_of(problem, operands));
  const Operands in_place(s, operands, offsets);
  return std::vector{grouped_reference(output_of(s, operands, offsets), [&](std::int64_t group) {
    const CodedProduct p = product_of(s, in_place.views, offsets, group);
    return coded_reference(model_of(p), p);
  })};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < s.c_at() + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  RIDGE_TRY(offsets, offsets_of(problem, operands));
  const std::string label = problem.problem_case.text();
  const Operands in_place(s, operands, offsets);
  return grouped_spot_check(output_of(s, operands, offsets), label, seed, [&](std::int64_t group, std::uint64_t own) {
    const CodedProduct p = product_of(s, in_place.views, offsets, group);
    const TensorView old = s.accumulate ? matrix_of(operands[s.c_at() + 1], group) : TensorView();
    return coded_spot_check(model_of(p), p, old, label, own);
  });
}

}  // namespace ridge::ops::grouped_gemm_fp8
