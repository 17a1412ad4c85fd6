// What the files of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/adamw/contract.h"
#include "ops/op.h"

namespace ridge::ops::adamw {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kCount, kDtype, kWideGrad, kState, kMaster, kFactor, kSkip, kMaximize, kParamCount };
enum ScalarAt : std::size_t { kLr, kBeta1, kBeta2, kEps, kWeightDecay, kCorrection1, kCorrection2 };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr DType kStates[] = {DType::kF32, DType::kBf16};               // by the value of `state`

struct Shape {
  std::int64_t count = 0;
  DType dtype = DType::kBf16, grad = DType::kBf16, state = DType::kF32;
  bool master = false, factor = false, skip = false, maximize = false;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const DType dtype = kDtypes[static_cast<std::size_t>(v[kDtype])];
  return Shape{v[kCount],
               dtype,
               v[kWideGrad] == 1 ? DType::kF32 : dtype,
               kStates[static_cast<std::size_t>(v[kState])],
               v[kMaster] == 1,
               v[kFactor] == 1,
               v[kSkip] == 1,
               v[kMaximize] == 1};
}

// The numbers of a step as the formulas multiply with them.
struct Constants {
  double decay, first, kept, second, step, root, eps;
};
// decay = 1 - lr weight_decay, first = 1 - beta1, kept = beta2, second = 1 - beta2, step = lr / correction1,
// root = 1 / sqrt(correction2).
Constants constants_of(const Problem& problem, const Arguments& arguments);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::adamw
