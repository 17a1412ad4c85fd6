// The definition, group by group, in fp64 from the stored inputs. Shares no code with any kernel.
#include <algorithm>

#include "base/error.h"
#include "numerics/convert.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/product.h"

namespace ridge::ops::grouped_gemm {
namespace {

ProductModel model_of(const Shape& s, const GroupProduct& product) {
  return {product.m, product.n, product.k, s.out, s.accumulate};
}

// The rows of a group as a matrix, element by element; memory of its own where they are found by index.
struct Rows {
  TensorView view;
  std::vector<std::uint8_t> memory;

  Rows(const TensorView& stored, std::span<const std::int32_t> index, bool gathered) : view(stored) {
    if (!gathered) return;
    const auto size = static_cast<std::size_t>(size_bytes(stored.dtype, 1)),
               width = static_cast<std::size_t>(stored.shape[1]);
    memory.assign(std::max<std::size_t>(index.size() * width * size, 1), 0);
    for (std::size_t at = 0; at < index.size() * width; ++at) {
      const std::int64_t row = index[at / width], column = static_cast<std::int64_t>(at % width);
      if (row < 0) continue;
      const auto* const from = static_cast<const std::uint8_t*>(stored.data) +
                               static_cast<std::size_t>(row * stored.stride[0] + column) * size;
      std::copy_n(from, size, memory.data() + at * size);
    }
    view =
        TensorView::contiguous(memory.data(), stored.dtype, {static_cast<std::int64_t>(index.size()), stored.shape[1]});
  }
};

ReferenceOutput one_group(const Shape& s, const GroupProduct& p) {
  std::vector<double> old;
  if (s.accumulate) old = numerics::to_doubles(p.c);
  const ProductModel model = model_of(s, p);
  const Rows a(p.a, p.index, s.gather == kOfA), b(p.b, p.index, s.gather == kOfB);
  return product_reference(
      model, product_sums(model, load_matrix(a.view, p.trans_a), load_matrix(b.view, p.trans_b), std::move(old)));
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  return std::vector{grouped_reference(output_of(s, operands, offsets), [&](std::int64_t g) {
    return one_group(s, product_of(s, operands, offsets, g));
  })};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < s.c() + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  const std::string label = problem.problem_case.text();
  return grouped_spot_check(output_of(s, operands, offsets), label, seed, [&](std::int64_t g, std::uint64_t own) {
    const GroupProduct p = product_of(s, operands, offsets, g);
    const TensorView old = s.accumulate ? matrix_of(operands[s.c() + 1], g) : TensorView();
    const Rows a(p.a, p.index, s.gather == kOfA), b(p.b, p.index, s.gather == kOfB);
    return product_spot_check(model_of(s, p), a.view, p.trans_a, b.view, p.trans_b, p.c, s.accumulate ? &old : nullptr,
                              label, own);
  });
}

}  // namespace ridge::ops::grouped_gemm
