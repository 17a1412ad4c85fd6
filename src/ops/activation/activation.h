// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ops/activation/contract.h"
#include "ops/op.h"

namespace ridge::ops::activation {

// Positions in Problem::values and in the operator's parameter list, which both operators begin with.
enum Param : std::size_t { kRows, kCols, kDtype, kFunction, kGated, kProbs, kMask, kParamCount };
enum ScalarAt : std::size_t { kAlpha, kLimit };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16;
  ActivationFunction function = ActivationFunction::kSilu;
  bool gated = false, probs = false, mask = false;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows],
               v[kCols],
               kDtypes[static_cast<std::size_t>(v[kDtype])],
               static_cast<ActivationFunction>(v[kFunction]),
               v[kGated] == 1,
               v[kProbs] == 1,
               v[kMask] == 1};
}

// What both operators declare, ask of a case and of operands, and put into a call; errors name the values and the way
// out.
std::vector<record::ParamInfo> params();
Status check_inputs(std::string_view op, const Args& args);
void add_inputs(Problem& problem);
Call call_of(const Args& args);
// For launch plans: `one_row`, where all rows follow on each other and nothing differs from row to row; `vectors`,
// where all rows start on 16 bytes and are whole multiples of them.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// Those of an operator with these operands and parameters.
std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend);
// FLOP of f alone, or of f with its derivative; bytes of all operands.
record::Cost cost_of(const Problem& problem, double per_element, double per_gate);

}  // namespace ridge::ops::activation
