// What the files of this folder share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace ridge::ops::attention {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kBatch, kHeads, kKvHeads, kQLen, kKLen, kDim, kDtype, kMask, kParamCount };
// Positions among the operands.
enum OperandAt : std::size_t { kQ, kK, kV, kO, kLogSumExp };

inline constexpr DType kDtypes[] = {DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr std::int64_t kLargestDim = 256;

struct Shape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, dim = 0;
  DType dtype = DType::kBf16;
  bool causal = false;
  double scale = 1;  // of a score, where a call is at hand

  [[nodiscard]] std::int64_t kv_head(std::int64_t head) const { return head / (heads / kv_heads); }
  // How many keys a query sees; they are the first ones.
  [[nodiscard]] std::int64_t seen(std::int64_t query) const {
    return causal ? std::clamp<std::int64_t>(query + k_len - q_len + 1, 0, k_len) : k_len;
  }
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{
      v[kBatch],    v[kHeads], v[kKvHeads], v[kQLen], v[kKLen], v[kDim], kDtypes[static_cast<std::size_t>(v[kDtype])],
      v[kMask] == 1};
}

enum ScalarAt : std::size_t { kScale };
inline Shape shape_of(const Problem& problem, const Arguments& arguments) {
  Shape s = shape_of(problem);
  s.scale = arguments.scalar(problem, kScale).real();
  return s;
}
// What a call that names no scale has.
inline double usual_scale(std::int64_t dim) { return 1 / std::sqrt(static_cast<double>(dim)); }

// Checks that forward and backward share; `op` is the operator that an error names.
Status check_heads(std::string_view where, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim);
Status check_inputs(std::string_view op, const TensorView& q, const TensorView& k, const TensorView& v,
                    const TensorView& log_sum_exp, std::optional<double> scale);
Status check_like(std::string_view op, std::string_view name, const TensorView& view, std::string_view other_name,
                  const TensorView& other);
std::vector<record::ParamInfo> params();
bool excuses(const Problem& problem, numerics::Family family);
// Pairs of a query and a key that it sees.
double visible_pairs(const Shape& shape);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::attention
