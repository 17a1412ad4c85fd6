// What the files of this folder share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/expert_order/contract.h"
#include "ops/op.h"

namespace ridge::ops::expert_order {

// Positions in Problem::values and in the operator's parameter list, and of the operands.
enum Param : std::size_t { kTokens, kExperts, kTop, kAlign, kParamCount };
enum OperandAt : std::size_t { kChosen, kOffsets, kTokenOf, kRows, kChoices };

inline constexpr std::int64_t kMostExperts = 4096, kMostAlign = 1024;

struct Shape {
  std::int64_t tokens = 0, experts = 1, top = 1, align = 1;

  [[nodiscard]] std::int64_t count() const { return tokens * top; }
  [[nodiscard]] std::int64_t places() const { return (count() + experts * (align - 1)) / align * align; }
};
inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return {v[kTokens], v[kExperts], v[kTop], v[kAlign]};
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::expert_order
