// What the files of this folder share: the parameters as numbers, and the sizes of a bound problem.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace ridge::ops::gemm {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kM, kN, kK, kDtype, kOut, kLayout, kAccumulate, kParamCount };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
enum Out : std::int64_t { kOutSame, kOutF32 };

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::kF32, out = DType::kF32;
  bool trans_a = false, trans_b = false, accumulate = false;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const DType dtype = kDtypes[v[kDtype]];
  return Shape{v[kM],
               v[kN],
               v[kK],
               dtype,
               v[kOut] == kOutF32 ? DType::kF32 : dtype,
               v[kLayout] >= 2,
               v[kLayout] % 2 == 1,
               v[kAccumulate] == 1};
}

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::gemm
