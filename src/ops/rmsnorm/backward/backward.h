// What the files of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/rmsnorm/backward/contract.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm_backward {

using rmsnorm::kDtypes;
using rmsnorm::Weight;
using rmsnorm::weight_dtype;

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kRows, kCols, kDtype, kWeight, kZeroCentred, kResidual, kWanted, kParamCount };
enum Wanted : std::int64_t { kDx, kDweight, kBoth };

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16;
  Weight weight = Weight::kSame;
  bool zero_centred = false, residual = false, dx = false, dweight = false;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows],
               v[kCols],
               kDtypes[static_cast<std::size_t>(v[kDtype])],
               static_cast<Weight>(v[kWeight]),
               v[kZeroCentred] == 1,
               v[kResidual] == 1,
               v[kWanted] != kDweight,
               v[kWanted] != kDx};
}

Result<Call> make_call(const Args& args);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rmsnorm_backward
