// What the files of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"
#include "ops/rope/contract.h"

namespace ridge::ops::rope {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t {
  kBatch,
  kLength,
  kHeads,
  kKvHeads,
  kDim,
  kRotary,
  kRows,
  kDtype,
  kInterleaved,
  kPositions,
  kInverse,
  kParamCount
};
enum ScalarAt : std::size_t { kOffset };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr std::int64_t kLargestDim = 1024;

struct Shape {
  std::int64_t batch = 0, length = 0, heads = 0, kv_heads = 0, dim = 0, rotary = 0, rows = 0;
  DType dtype = DType::kBf16;
  bool interleaved = false, inverse = false;
  DType positions = DType::kF32;  // i64 or i32; f32: there are none
};
inline Shape shape_of(const Problem& problem) {
  constexpr DType kIndices[] = {DType::kF32, DType::kI64, DType::kI32};  // by the value of `positions`
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kBatch],
               v[kLength],
               v[kHeads],
               v[kKvHeads],
               v[kDim],
               v[kRotary],
               v[kRows],
               kDtypes[static_cast<std::size_t>(v[kDtype])],
               v[kInterleaved] == 1,
               v[kInverse] == 1,
               kIndices[static_cast<std::size_t>(v[kPositions])]};
}

// Which row of the table a token takes; in host memory.
class Positions {
 public:
  Positions(const Problem& problem, const Arguments& arguments)
      : given_(operand(problem, arguments, "positions")), offset_(arguments.scalar(problem, kOffset).whole()) {}
  [[nodiscard]] std::int64_t at(std::int64_t sequence, std::int64_t token) const {
    if (given_.rank == 0) return offset_ + token;
    const std::int64_t place = sequence * given_.stride[0] + token * given_.stride[1];
    if (given_.dtype == DType::kI32) return static_cast<const std::int32_t*>(given_.data)[place];
    return static_cast<const std::int64_t*>(given_.data)[place];
  }

 private:
  TensorView given_;
  std::int64_t offset_;
};
// The table has a row for each.
Status check_positions(const Problem& problem, const Arguments& arguments);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rope
