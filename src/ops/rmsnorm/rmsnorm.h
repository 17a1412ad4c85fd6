// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace ridge::ops::rmsnorm {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kRows, kCols, kDtype, kWeight, kZeroCentred, kResidual, kRstd, kParamCount };
enum ScalarAt : std::size_t { kEps };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
enum class Weight : std::int64_t { kNone, kSame, kF32 };                      // of `weight`

inline DType weight_dtype(Weight weight, DType dtype) { return weight == Weight::kF32 ? DType::kF32 : dtype; }

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16;
  Weight weight = Weight::kSame;
  bool zero_centred = false, residual = false, rstd = false;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows],
               v[kCols],
               kDtypes[static_cast<std::size_t>(v[kDtype])],
               static_cast<Weight>(v[kWeight]),
               v[kZeroCentred] == 1,
               v[kResidual] == 1,
               v[kRstd] == 1};
}

// For launch plans: whether every row of every operand can be read and written in pieces of 16 bytes (`vectors`).
void vector_facts(const Problem& problem, std::span<const TensorView> operands,
                  std::map<std::string, std::int64_t>& facts);
// What both operators ask of a case and of operands; errors name the values and the way out.
Status check_weight(std::string_view op, const char* name, const TensorView& view, DType dtype, std::int64_t cols);
Status zero_centred_without_weight(std::string_view where);
// The value of the parameter `weight` for this one, of rank 0 where there is none.
inline std::int64_t weight_param(const TensorView& weight, DType dtype) {
  const Weight kind = weight.rank == 0 ? Weight::kNone : weight.dtype == dtype ? Weight::kSame : Weight::kF32;
  return static_cast<std::int64_t>(kind);
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rmsnorm
