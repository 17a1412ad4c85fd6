// What the files of this folder share: the parameters as numbers, the sizes of a bound problem, and where its groups
// lie.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/coding/coding.h"
#include "ops/grouped_quantize/contract.h"
#include "ops/op.h"
#include "ops/row_groups.h"

namespace ridge::ops::grouped_quantize {

// Positions in Problem::values and in the operator's parameter list; those of coding follow.
enum Param : std::size_t {
  kRows,
  kCols,
  kGroups,
  kAlign,
  kDtype,
  kOffsets,
  kLoad,
  kOf,
  kProbs,
  kOwnRows,
  kDprobs,
  kGather,
  kSources,
  kParamCount
};
enum Operand : std::size_t { kX, kOffsetsOperand };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`

struct Shape {
  std::int64_t rows = 0, cols = 0, groups = 1, align = 128, capacity = 0;
  DType dtype = DType::kBf16, offsets = DType::kI32;
  GroupedQuantizeOf of = GroupedQuantizeOf::kRows;
  bool probs = false, own_rows = false, dprobs = false, gather = false;
  std::int64_t sources = 0;  // rows of x, with gather

  [[nodiscard]] std::int64_t rows_of_x() const { return gather ? sources : rows; }
  [[nodiscard]] std::int64_t columns_of_x() const { return of == GroupedQuantizeOf::kSwiglu ? 2 * cols : cols; }
};
Shape shape_of(const Problem& problem);
// Of y; q is of own rows where the case says so.
coding::Coding coding_of(const Problem& problem);
// The copy as it is and the transposed one, of matrices of their own: of m, and of y.
coding::Coding own_coding_of(const Problem& problem);
coding::Coding transposed_coding_of(const Problem& problem);

// Where groups of so many rows begin in y, and where the last ends with its padding.
std::vector<std::int64_t> padded_offsets(std::span<const std::int64_t> offsets, std::int64_t align);

// An error where offsets or an index are none, with place and value.
Status check_numbers(const Problem& problem, const Arguments& arguments, std::span<const std::int64_t> offsets);

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::grouped_quantize
