// What the files of this folder share.
#pragma once

#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/fp8/contract.h"

namespace ridge::ops::attention_fp8 {

// Positions in Problem::values and in the operator's parameter list; those of attention in front of kVDim.
enum Param : std::size_t {
  kBatch,
  kHeads,
  kKvHeads,
  kQLen,
  kKLen,
  kDim,
  kOut,
  kMask,
  kKeysLeft,
  kKeysRight,
  kVDim,
  kParamCount
};
enum OperandAt : std::size_t { kQ, kK, kV, kQScale, kKScale, kVScale, kO, kLogSumExp };

// The sizes of attention; `dtype` is that of o.
attention::Shape shape_of(const Problem& problem);
attention::Shape shape_of(const Problem& problem, const Arguments& arguments);

Result<Call> make_call(const Args& args);
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::attention_fp8
