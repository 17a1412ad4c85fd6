// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/combine_rows/contract.h"
#include "ops/op.h"

namespace ridge::ops::combine_rows {

// Positions in Problem::values and in the operator's parameter list, which both operators begin with.
enum Param : std::size_t { kRows, kSources, kCols, kTop, kDtype, kIndex, kWeights, kParamCount };
enum OperandAt : std::size_t { kX, kFrom };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr DType kIndices[] = {DType::kI32, DType::kI64};               // by the value of `index`
inline constexpr std::int64_t kMostTop = 64;

struct Shape {
  std::int64_t rows = 0, sources = 0, cols = 0, top = 1;
  DType dtype = DType::kBf16, index = DType::kI32;
  bool weights = false;
};
// Of either operator; combine_rows_backward's values end before `weights`.
inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return {v[kRows],
          v[kSources],
          v[kCols],
          v[kTop],
          kDtypes[static_cast<std::size_t>(v[kDtype])],
          kIndices[static_cast<std::size_t>(v[kIndex])],
          v.size() > kWeights && v[kWeights] == 1};
}

// Up to `index`, for both operators.
std::vector<record::ParamInfo> params();
// Of a case, and of the operands that both operators read.
Status check_sizes(const Problem& problem);
Status check_inputs(std::string_view op, const TensorView& x, const TensorView& from);
// A number for each source: weights, or their gradient.
Status check_per_source(std::string_view op, std::string_view name, const TensorView& view, const TensorView& from);
// x and from.
void add_inputs(Problem& problem);
// For launch plans: vectors, 1 where the rows of all matrices start on 16 bytes and are whole multiples of them.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);

// In host memory: the k-th source of a row, negative: none. The second: an error where one is no row of x.
inline std::int64_t source_at(const TensorView& from, std::int64_t row, std::int64_t k) {
  const std::int64_t place = row * from.stride[0] + k;
  if (from.dtype == DType::kI32) return static_cast<const std::int32_t*>(from.data)[place];
  return static_cast<const std::int64_t*>(from.data)[place];
}
Status check_sources(std::string_view op, const Shape& s, const TensorView& from);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// Those of an operator with these parameters; `options`: what else its cases say.
std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend,
                                   std::span<const char* const> options);
// Refuses, for checks on a GPU, an x whose elements are not counted in 32 bits.
std::optional<std::string> too_large_to_check(const Problem& problem);

}  // namespace ridge::ops::combine_rows
