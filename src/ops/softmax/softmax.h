// What the files of this folder share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/op.h"
#include "ops/softmax/contract.h"

namespace ridge::ops::softmax {

// Positions in Problem::values and in the operator's parameter list, which both operators have.
enum Param : std::size_t { kRows, kCols, kDtype, kOut, kForm, kParamCount };
enum ScalarAt : std::size_t { kScale };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype` and `out`

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16, out = DType::kBf16;
  SoftmaxForm form = SoftmaxForm::kSoftmax;
};
inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return {v[kRows], v[kCols], kDtypes[static_cast<std::size_t>(v[kDtype])], kDtypes[static_cast<std::size_t>(v[kOut])],
          static_cast<SoftmaxForm>(v[kForm])};
}

// What both operators declare, ask of a case and of operands, and put into a call; errors name the values and the way
// out.
std::vector<record::ParamInfo> params();
// A problem of that operator, without operands.
Result<Problem> bound(std::string_view op, const record::Case& requested);
Status check_scale(std::string_view op, double scale);
// Of x and dx, or of y and dy: the dtype is one of kDtypes.
Status check_rows_of(std::string_view op, std::string_view name, const TensorView& view);
// The dtype of y beside that of x.
Status check_out(std::string_view op, DType x, DType y);
Call call_of(const TensorView& x, DType out, SoftmaxForm form, double scale);
// For launch plans: `vectors`, where rows of x, y, dy and dx start on 16 bytes and are whole multiples of them.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// Those of an operator with these parameters.
std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend);
// FLOP of so many per element; bytes of all operands.
record::Cost cost_of(const Problem& problem, double per_element);

}  // namespace ridge::ops::softmax
