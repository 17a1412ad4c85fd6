// What the tests of launch plans share: plans of cases on a GPU of 132 multiprocessors. Needs no GPU.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/op.h"

namespace ridge::ops {

inline Problem problem_of(const std::string& text) {
  const auto parsed = record::parse_case(text);
  return (*find_operator(parsed->op))->bind(*parsed).value();
}

inline constexpr std::int64_t kSharedOfHopper = 232448, kSharedOfAda = 101376;  // bytes of a block

inline record::ResolvedPlan plan_of(const char* source, const Problem& problem, std::span<const TensorView> views,
                                    std::int64_t max_shared = kSharedOfHopper) {
  record::PlanFacts facts = plan_facts(problem, views);
  facts.values["sm_count"] = 132;
  facts.values["max_shared"] = max_shared;
  return described_kernel(source).resolve(0, facts).value();
}

inline std::vector<TensorView> dense_views(const Problem& problem) {
  std::vector<TensorView> views;
  for (const OperandSpec& operand : problem.operands) views.push_back(dense_view(operand, nullptr));
  return views;
}

inline std::vector<std::string> symbols(const record::ResolvedPlan& plan) {
  std::vector<std::string> all;
  for (const auto& kernel : plan.kernels) all.push_back(kernel.symbol);
  return all;
}

}  // namespace ridge::ops
