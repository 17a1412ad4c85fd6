// What rope_norm and its backward share.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "ops/rope/norm/contract.h"
#include "ops/rope/rope.h"
#include "ops/row_check.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::rope_norm {

// What stands in Problem::values behind rope's `positions`.
enum Param : std::size_t { kWeight = rope::kPositions + 1, kZeroCentred, kParamCount };
enum Weight : std::int64_t { kNone, kSame, kF32 };  // values of `weight`
enum ScalarAt : std::size_t { kOffset, kEps };

// ---- Cases and calls

std::vector<record::ParamInfo> params();
// Inputs as rope's with the weights behind them, and the scalars.
Result<Problem> bind_inputs(std::string_view op, const record::Case& requested);
// As rope::add_heads: a weight for q and, where the case has k, one for k; nothing where it has no weights.
void add_weights(Problem& problem, const char* q, const char* k, bool output);
// The arguments of rope for q and k, of which the gradients are another pair of the same shape.
RopeArgs turned(const Args& args);
Status check_inputs(std::string_view op, const Args& args);
// Values, inputs and scalars of checked arguments.
Call input_call(const Args& args);
// rope::heads_alignment, and `weights_align`: what all weights are aligned to.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);

Result<Call> make_call(const Args& args);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// Edge shapes in every form, shapes to bench, shapes a campaign starts from: of `op`.
std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend);

// ---- References

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);

// One head in fp64 with its errors.
using Numbers = std::vector<rows::Number>;
rows::Number rstd_of(std::span<const double> x, double eps);
// A weight as it counts; ones where there is none.
std::vector<double> weights_in_fp64(const TensorView& weight, std::int64_t dim);
rows::Number weighted(const rows::Number& x, double weight, bool zero_centred, bool given);
// Turned by the angles of a position, or back.
Numbers turned(const rope::Shape& s, const Numbers& x, const TensorView& cos, const TensorView& sin,
               std::int64_t position, bool inverse);

// ---- Kernels for processors

// A weight as a factor of elements: ones where there is none.
struct Factors {
  alignas(64) float of[rope::kLargestDim];
  Factors(const TensorView& weight, std::int64_t dim, bool zero_centred);
};
// The elements of one head as a row.
inline RowOfMatrix head_of(const TensorView& heads, std::int64_t sequence, std::int64_t token, std::int64_t head) {
  const std::int64_t offset = sequence * heads.stride[0] + token * heads.stride[1] + head * heads.stride[2];
  void* const first = static_cast<unsigned char*>(heads.data) + size_bytes(heads.dtype, offset);
  return {TensorView::matrix(first, heads.dtype, 1, heads.shape[3], heads.shape[3]), 0};
}
inline float root_of(float squares, std::int64_t dim, float eps) {
  return 1.0F / std::sqrt(squares / static_cast<float>(dim) + eps);
}

}  // namespace ridge::ops::rope_norm
