// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
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
// Of any operator whose values begin as rope's do, up to `positions`.
inline Shape tokens_of(const Problem& problem) {
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
               false,
               kIndices[static_cast<std::size_t>(v[kPositions])]};
}
inline Shape shape_of(const Problem& problem) {
  Shape shape = tokens_of(problem);
  shape.inverse = problem.values[kInverse] == 1;
  return shape;
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
Status check_positions(std::string_view op, const Problem& problem, const Arguments& arguments);

// ---- What rope shares with the operators of norm/

// The parameters up to `positions`.
std::vector<record::ParamInfo> token_params();
// A case of such parameters and more, with its inputs (q, k, cos, sin, positions) and the scalar `offset`.
Result<Problem> bind_tokens(std::string_view op, const std::vector<record::ParamInfo>& params,
                            const record::Case& requested);
// Of q and of k, with other names.
void add_heads(Problem& problem, const char* q, const char* k, bool output);
Status check_args(std::string_view op, const Args& args);
// Of checked arguments: the values up to `positions`, of `count` in all.
void set_token_values(const Args& args, std::size_t count, Call& call);
// cos, sin and, where there are any, positions.
void push_table(const Args& args, Call& call);
// What q, k and all that has their shape are aligned to, for launch plans, in which one that is left out has no name.
void heads_alignment(const Problem& problem, std::span<const TensorView> operands,
                     std::map<std::string, std::int64_t>& facts);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rope
