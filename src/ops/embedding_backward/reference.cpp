// The definition in fp64: every element against the numbers of row_check.h, which carry the error of an fp32 sum along.
#include "numerics/convert.h"
#include "ops/embedding_backward/embedding_backward.h"
#include "ops/row_check.h"
// clang-format off
#include "ops/embedding_backward/element.cuh"
// clang-format on

namespace ridge::ops::embedding_backward {
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  RIDGE_TRY(order, sorted(problem, arguments));
  const rows::Format format = rows::format_of(s.out);
  const auto cols = static_cast<std::size_t>(s.cols);
  const std::vector<double> dy = numerics::to_doubles(arguments[kDy]);
  const std::vector<double> old = s.accumulate ? numerics::to_doubles(arguments[kDw]) : std::vector<double>();
  ReferenceOutput out;
  for (std::size_t v = 0; v + 1 < order.first.size(); ++v) {
    std::vector<rows::Sum> sums(cols);
    const auto first = static_cast<std::size_t>(order.first[v]), last = static_cast<std::size_t>(order.first[v + 1]);
    for (std::size_t i = first; i < last; ++i) {
      const double* const row = dy.data() + static_cast<std::size_t>(order.tokens[i]) * cols;
      for (std::size_t j = 0; j < cols; ++j) sums[j].add(rows::Number(row[j]));
    }
    for (std::size_t j = 0; j < cols; ++j) {
      const rows::Stored right = element(format, sums[j], static_cast<double>(last - first), s.accumulate,
                                         s.accumulate ? old[v * cols + j] : 0);
      out.value.push_back(right.value);
      out.allowed.push_back(right.allowed);
      out.ideal_square.push_back(right.ideal_square);
      out.shift.push_back(right.shift);
    }
  }
  return std::vector{std::move(out)};
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t) {
  const auto before = [](const Problem& one, const Arguments& after) {
    std::vector<TensorView> views(after.operands.begin(), after.operands.begin() + kDw + 1);
    if (shape_of(one).accumulate) views[kDw] = after.operands.back();
    return reference(one, {views, after.scalars});
  };
  return spot_check_by_reference(problem, arguments, before);
}

}  // namespace ridge::ops::embedding_backward
