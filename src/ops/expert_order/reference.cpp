// The definition: a stable sort of all choices by their experts.
#include <algorithm>
#include <numeric>

#include "numerics/convert.h"
#include "ops/expert_order/expert_order.h"
#include "ops/row_check.h"

namespace ridge::ops::expert_order {
namespace {

struct Right {
  std::vector<double> offsets, tokens, rows, choices;
};

Right right(const Shape& s, const std::vector<double>& experts) {
  const auto limit = static_cast<double>(s.experts);
  std::vector<std::int64_t> sorted(experts.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  const auto expert = [&](std::int64_t choice) { return experts[static_cast<std::size_t>(choice)]; };
  std::erase_if(sorted, [&](std::int64_t choice) { return expert(choice) < 0 || expert(choice) >= limit; });
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::int64_t a, std::int64_t b) { return expert(a) < expert(b); });
  const auto places = static_cast<std::size_t>(s.places());
  Right found{
      {0}, std::vector<double>(places, -1), std::vector<double>(experts.size(), -1), std::vector<double>(places, -1)};
  auto next = sorted.begin();
  for (double e = 0; e < limit; ++e) {
    auto row = static_cast<std::int64_t>(found.offsets.back());
    for (; next != sorted.end() && expert(*next) == e; ++next, ++row) {
      found.choices[static_cast<std::size_t>(row)] = static_cast<double>(*next);
      found.tokens[static_cast<std::size_t>(row)] = static_cast<double>(*next / s.top);
      found.rows[static_cast<std::size_t>(*next)] = static_cast<double>(row);
    }
    found.offsets.push_back(static_cast<double>((row + s.align - 1) / s.align * s.align));
  }
  return found;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  Right all = right(shape_of(problem), numerics::to_doubles(arguments[kChosen]));
  std::vector<ReferenceOutput> outputs(4);
  outputs[kOffsets - 1].value = std::move(all.offsets);
  outputs[kTokenOf - 1].value = std::move(all.tokens);
  outputs[kRows - 1].value = std::move(all.rows);
  outputs[kChoices - 1].value = std::move(all.choices);
  return outputs;
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t) {
  RIDGE_TRY(expected, reference(problem, arguments));
  const auto whole = [](const std::vector<double>& values) {
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  for (const OperandAt at : {kOffsets, kTokenOf, kRows, kChoices}) {
    const SpotCheck one = rows::check_integers(problem.operands[at].name, whole(numerics::to_doubles(arguments[at])),
                                               whole(expected[at - 1].value));
    if (one.residual > one.allowed || at == kChoices) return one;
  }
  return SpotCheck();
}

}  // namespace ridge::ops::expert_order
