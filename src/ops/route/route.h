// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "ops/route/contract.h"

namespace ridge::ops::route {

// Positions in Problem::values and in the operator's parameter list, which both operators begin with.
enum Param : std::size_t {
  kTokens,
  kExperts,
  kTop,
  kDtype,
  kScore,
  kOrder,
  kRenormalize,
  kBias,
  kGroups,
  kGroupTop,
  kParamCount
};
enum ScalarAt : std::size_t { kScale };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr std::int64_t kMostTop = 64, kMostExperts = 4096;
inline constexpr double kEpsilon = 1e-20;  // beside the sum that weights are divided by

struct Shape {
  std::int64_t tokens = 0, experts = 1, top = 1;
  DType dtype = DType::kBf16;
  bool sigmoid = false, top_first = false, renormalize = false;
  // Of the choice; route_backward's values end before them.
  bool bias = false;
  std::int64_t groups = 1, group_top = 1;

  // The numbers that are compared are logits, not scores.
  [[nodiscard]] bool by_logits() const { return top_first || (!bias && groups == 1); }
};
inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  Shape s{v[kTokens],     v[kExperts],         v[kTop], kDtypes[static_cast<std::size_t>(v[kDtype])], v[kScore] == 1,
          v[kOrder] == 1, v[kRenormalize] == 1};
  if (v.size() > kBias) s.bias = v[kBias] == 1, s.groups = v[kGroups], s.group_top = v[kGroupTop];
  return s;
}

// Up to `renormalize`, for both operators.
std::vector<record::ParamInfo> params();
Status check_sizes(const Problem& problem);
Status check_logits(std::string_view op, const TensorView& logits);
Status check_scale(std::string_view op, double scale);
// A number for each choice of a token.
Status check_per_choice(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                        const TensorView& logits, std::int64_t top);
// The values up to `renormalize`, and the scalar.
Call call_of(const TensorView& logits, std::int64_t top, const RouteSettings& settings, std::size_t params);
void add_scalars(Problem& problem);
// For launch plans of both operators: vectors, 1 where the rows of all matrices of logits, and the bias, start on 16
// bytes and rows are whole multiples of them.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// Those that both operators are measured with.
std::vector<record::Case> timed_cases(std::string_view op, CaseSet set, Backend backend, bool choice);

}  // namespace ridge::ops::route
