// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/cross_entropy/contract.h"
#include "ops/op.h"

namespace ridge::ops::cross_entropy {

// Positions in Problem::values and in the operator's parameter list; both operators begin with the first six.
enum Param : std::size_t {
  kTokens,
  kVocabulary,
  kDtype,
  kIndex,
  kSoftCap,
  kShard,
  kCommonParams,
  kGrad = kCommonParams,
  kLse,
  kDlogits,
  kParamCount
};
enum ScalarAt : std::size_t { kSmoothing, kZLoss, kCap, kGradScale, kIgnore, kFirst, kWhole };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr DType kIndices[] = {DType::kI64, DType::kI32};               // by the value of `index`

struct Shape {
  std::int64_t tokens = 0, vocabulary = 0;
  DType dtype = DType::kBf16, index = DType::kI64;
  bool soft_cap = false, shard = false;
};
inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kTokens],
               v[kVocabulary],
               kDtypes[static_cast<std::size_t>(v[kDtype])],
               kIndices[static_cast<std::size_t>(v[kIndex])],
               v[kSoftCap] == 1,
               v[kShard] == 1};
}
// The numbers of a call; of what is no shard, first is 0 and whole the number of columns.
CrossEntropySettings settings_of(const Problem& problem, const Arguments& arguments);

// What both operators declare, ask of a case and of operands, and put into a call; errors name the values and the way
// out.
std::vector<record::ParamInfo> params();
Status check_settings(std::string_view op, const CrossEntropySettings& settings, std::int64_t vocabulary);
Status check_inputs(std::string_view op, const TensorView& logits, const TensorView& targets,
                    const CrossEntropySettings& settings);
// Of dlogits, where it is wanted: like logits, and logits itself or apart from it.
Status check_gradient(std::string_view op, const TensorView& dlogits, const TensorView& logits);
OperandSpec targets_of(const Problem& problem);
void add_scalars(Problem& problem);
// For launch plans: vectors, 1 where rows of logits and dlogits start on 16 bytes and are whole multiples of them; and
// capped, 1 with a soft cap.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);
Call call_of(const TensorView& logits, const TensorView& targets, const CrossEntropySettings& settings,
             std::size_t params);

// In host memory.
inline std::int64_t target_at(const TensorView& targets, std::int64_t row) {
  if (targets.dtype == DType::kI32) return static_cast<const std::int32_t*>(targets.data)[row];
  return static_cast<const std::int64_t*>(targets.data)[row];
}
// Every target is ignore_index or a column; in host memory.
Status check_targets(const Problem& problem, const Arguments& arguments);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// FLOP of so many per element; bytes of all operands.
record::Cost cost_of(const Problem& problem, double per_element);

}  // namespace ridge::ops::cross_entropy
