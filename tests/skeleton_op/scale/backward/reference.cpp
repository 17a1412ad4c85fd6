// The definition, from which the full compare and the check after every launch are made.
#include "ops/row_check.h"
#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  const double alpha = static_cast<float>(problem.real(kAlpha));
  const auto x = problem.position("x"), gain = problem.position("gain");
  const bool dx = problem.position("dx").has_value();
  return rows::elementwise(std::vector(problem.operands.size(), rows::Reads::kRow),
                           [=](const auto& row, std::size_t output, std::size_t column) {
                             const auto scaled = alpha * row(0, column);
                             const auto factor = output == 0 && dx ? gain : x;
                             return factor ? scaled * row(*factor, column) : scaled;
                           });
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

}  // namespace ridge::ops::scale_backward
