// What the files of this folder share.
#pragma once

#include <memory>
#include <vector>

#include "ops/activation/activation.h"
#include "ops/activation/quantize/backward/contract.h"
#include "ops/coding/coding.h"

namespace ridge::ops::activation_quantize_backward {

using activation::shape_of;

// Of d, both gradients side by side. The parameters of coding follow those of activation.
inline std::int64_t columns_of(const activation::Shape& s) { return s.gated ? 2 * s.cols : s.cols; }
inline coding::Coding coding_of(const Problem& problem) {
  const activation::Shape s = shape_of(problem);
  return coding::coding_of(problem, activation::kParamCount, s.rows, columns_of(s));
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::activation_quantize_backward
