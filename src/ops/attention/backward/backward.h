// What the files of this folder share. A case has the parameters of attention, in their order, and one more.
#pragma once

#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/backward/contract.h"

namespace ridge::ops::attention_backward {

inline constexpr std::size_t kDeterministic = attention::kParamCount, kParamCount = attention::kParamCount + 1;
// Positions among the operands; behind these the offsets of packed documents and the sinks, where a case has any, and
// the gradients.
enum OperandAt : std::size_t { kQ, kK, kV, kO, kLogSumExp, kGradO };

Result<Call> make_call(const Args& args);
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::attention_backward
