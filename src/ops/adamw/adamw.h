// What the files of this folder share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/adamw/contract.h"
#include "ops/op.h"

namespace ridge::ops::adamw {

// Position in Problem::values and in the operator's parameter list; those of the form follow.
inline constexpr std::size_t kCount = 0, kFirstOfForm = 1;
// Positions behind the sizes, of this operator and of those that make something of its weights.
enum FormParam : std::size_t { kDtype, kWideGrad, kState, kMaster, kFactor, kSkip, kMaximize, kFormCount };
enum ScalarAt : std::size_t { kLr, kBeta1, kBeta2, kEps, kWeightDecay, kCorrection1, kCorrection2 };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr DType kStates[] = {DType::kF32, DType::kBf16};               // by the value of `state`

struct Form {
  DType dtype = DType::kBf16, grad = DType::kBf16, state = DType::kF32;
  bool master = false, factor = false, skip = false, maximize = false;
};

// `first`: where the parameters of the form begin.
inline Form form_of(const Problem& problem, std::size_t first = kFirstOfForm) {
  const auto at = [&](FormParam param) { return static_cast<std::size_t>(problem.values[first + param]); };
  const DType dtype = kDtypes[at(kDtype)];
  return Form{dtype,
              at(kWideGrad) == 1 ? DType::kF32 : dtype,
              kStates[at(kState)],
              at(kMaster) == 1,
              at(kFactor) == 1,
              at(kSkip) == 1,
              at(kMaximize) == 1};
}
inline std::int64_t count_of(const Problem& problem) { return problem.values[kCount]; }

// For operators that step weights of any rank: the parameters of the form, the inputs (grad, factor, skip), what a step
// changes (param, exp_avg, exp_avg_sq, master), and the scalars.
std::vector<record::ParamInfo> form_params();
void add_inputs(Problem& problem, const Form& form, const std::vector<std::int64_t>& sizes);
std::vector<OperandSpec> changed_operands(const Form& form, const std::vector<std::int64_t>& sizes);
void add_scalars(Problem& problem);
// The same of a call: tensors of that rank, values of the form behind those that there are, inputs and scalars.
Status check_args(std::string_view op, const Args& args, int rank);
void add_form(Call& call, const Args& args);

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
