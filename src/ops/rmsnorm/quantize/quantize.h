// What the files of this folder share.
#pragma once

#include <memory>
#include <vector>

#include "ops/coding/coding.h"
#include "ops/rmsnorm/quantize/contract.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm_quantize {

inline constexpr row_norm::Kind kKind{"rmsnorm_quantize", false};

// The parameters of coding follow those of the norm's inputs.
inline constexpr std::size_t kFirstOfCoding = row_norm::kResidual + 1;
inline coding::Coding coding_of(const Problem& problem) {
  return coding::coding_of(problem, kFirstOfCoding, problem.values[row_norm::kRows], problem.values[row_norm::kCols]);
}
inline bool has_residual(const Problem& problem) { return problem.values[row_norm::kResidual] == 1; }
inline bool is_zero_centred(const Problem& problem) { return problem.values[row_norm::kZeroCentred] == 1; }

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rmsnorm_quantize
