// What the files of this folder share.
#pragma once

#include <memory>
#include <vector>

#include "ops/adamw/adamw.h"
#include "ops/adamw/quantize/contract.h"
#include "ops/coding/coding.h"

namespace ridge::ops::adamw_quantize {

// Positions in Problem::values and in the operator's parameter list; those of the step and of coding follow.
enum Param : std::size_t { kRows, kCols };
inline constexpr std::size_t kFirstOfForm = 2, kFirstOfCoding = kFirstOfForm + adamw::kFormCount;

inline adamw::Form form_of(const Problem& problem) { return adamw::form_of(problem, kFirstOfForm); }
inline coding::Coding coding_of(const Problem& problem) {
  return coding::coding_of(problem, kFirstOfCoding, problem.values[kRows], problem.values[kCols]);
}
// What is coded, among the operands.
inline std::size_t weights_of(const Problem& problem) {
  return *problem.position(form_of(problem).master ? "master" : "param");
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::adamw_quantize
