// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/embedding_backward/contract.h"
#include "ops/op.h"

namespace ridge::ops::embedding_backward {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kTokens, kVocabulary, kCols, kDtype, kOut, kIndex, kAccumulate, kParamCount };
enum OperandAt : std::size_t { kDy, kIds, kDw };
enum ScalarAt : std::size_t { kPadding };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype` and `out`
inline constexpr DType kIndices[] = {DType::kI64, DType::kI32};               // by the value of `index`

struct Shape {
  std::int64_t tokens = 0, vocabulary = 0, cols = 0;
  DType dtype = DType::kBf16, out = DType::kBf16, index = DType::kI64;
  bool accumulate = false;
};
inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return {v[kTokens],
          v[kVocabulary],
          v[kCols],
          kDtypes[static_cast<std::size_t>(v[kDtype])],
          kDtypes[static_cast<std::size_t>(v[kOut])],
          kIndices[static_cast<std::size_t>(v[kIndex])],
          v[kAccumulate] == 1};
}

// In host memory.
inline std::int64_t id_at(const TensorView& ids, std::int64_t token) {
  if (ids.dtype == DType::kI32) return static_cast<const std::int32_t*>(ids.data)[token];
  return static_cast<const std::int64_t*>(ids.data)[token];
}
// The tokens of each row of dw, in their order: those of row v are tokens[first[v]] to tokens[first[v + 1]].
struct Sorted {
  std::vector<std::int64_t> first, tokens;
};
// In host memory. An id that is no row is an error.
Result<Sorted> sorted(const Problem& problem, const Arguments& arguments);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::embedding_backward
