// What the files of this folder share.
#pragma once

#include "ops/op.h"

namespace ridge::ops::scale {

enum Param : std::size_t { kN, kAlpha, kGain, kTop, kParamCount };  // positions in Problem::values
enum ScalarAt : std::size_t { kBeta };                              // and in Problem::scalars

// A call in the kernels' words; what the case leaves out is null.
struct Vectors {
  std::int64_t n = 0;
  float alpha = 1, beta = 0;
  const float *x = nullptr, *gain = nullptr;
  float* y = nullptr;
  std::int64_t* top = nullptr;
};
Vectors vectors_of(const Problem& problem, const Arguments& arguments);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::scale
