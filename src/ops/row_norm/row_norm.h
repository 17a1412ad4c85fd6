// What operators that normalise rows share (rmsnorm, layernorm): their cases, the checks of their operands, their calls
// and their kernels for processors. An operator says what it is with a Kind; what a Kind has not is left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace ridge::ops::row_norm {

// Positions in Problem::values and in the parameter list of the forward operator; a norm without a mean has no bias.
enum Param : std::size_t { kRows, kCols, kDtype, kWeight, kZeroCentred, kResidual, kStatistics, kBias };
enum ScalarAt : std::size_t { kEps };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
enum class Weight : std::int64_t { kNone, kSame, kF32 };                      // of `weight`

inline DType weight_dtype(Weight weight, DType dtype) { return weight == Weight::kF32 ? DType::kF32 : dtype; }
// The value of the parameter `weight` for this one, of rank 0 where there is none.
inline std::int64_t weight_param(const TensorView& weight, DType dtype) {
  const Weight kind = weight.rank == 0 ? Weight::kNone : weight.dtype == dtype ? Weight::kSame : Weight::kF32;
  return static_cast<std::int64_t>(kind);
}

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16;
  Weight weight = Weight::kSame;
  bool zero_centred = false, residual = false, statistics = false, bias = false;
};
Shape shape_of(const Problem& problem);

struct Kind {
  std::string_view op;
  bool mean = false;  // it is taken off, and there may be a bias
};

// The operands of a forward call; of rank 0 where there is none.
struct ForwardViews {
  TensorView x, residual, weight, bias, y, sum, mean, rstd;
  bool zero_centred = false;
  double eps = 0;
};
// What every operator declares, asks of operands and puts into a call that normalises rows, up to `residual`; y, where
// it is given, is checked, too. No output overlaps an input or another one.
std::vector<record::ParamInfo> input_params();
Status add_inputs(const Kind& kind, Problem& problem);
Status check_forward(const Kind& kind, const ForwardViews& views);
Call input_call(const ForwardViews& views, std::size_t params);

std::vector<record::ParamInfo> forward_params(const Kind& kind);
Result<Problem> bind_forward(const Kind& kind, const record::Case& requested);
Result<Call> forward_call(const Kind& kind, const ForwardViews& views);

// The operands of a backward call; `mean` for a Kind that has one.
struct BackwardViews {
  TensorView dy, x, mean, rstd, weight, dsum, dx, dweight, dbias;
  bool zero_centred = false;
};
Status check_backward(const Kind& kind, const BackwardViews& views);
// The operands of a backward case in their order, from what the case says; errors name the values.
struct BackwardShape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16;
  Weight weight = Weight::kSame;
  bool zero_centred = false, residual = false, dx = false, dweight = false, dbias = false;
};
// The parameters up to `residual`; what is wanted comes behind and is each operator's own.
std::vector<record::ParamInfo> backward_params();
Status describe_backward(const Kind& kind, const BackwardShape& shape, Problem& problem);
// Values up to `residual` and operands of a checked call that has as many parameters.
Call backward_call(const BackwardViews& views, std::size_t params);
// The gradients of a forward call, as the views of its backward: Backward::call.
Result<BackwardViews> backward_views(const Problem& problem, const Arguments& forward,
                                     std::span<const TensorView> grad_outputs, std::span<const TensorView> grad_inputs);

// For launch plans: whether every row of every operand can be read and written in pieces of 16 bytes (`vectors`), and
// whether the numbers of columns, weight and bias, are f32 (`f32_columns`: a bias may be so without a weight).
void vector_facts(const Problem& problem, std::span<const TensorView> operands,
                  std::map<std::string, std::int64_t>& facts);

// Edge shapes in each of `forms` (parameters but sizes and dtype), shapes to bench, shapes a campaign starts from.
std::vector<record::Case> cases(std::string_view op, std::span<const char* const> forms, CaseSet set, Backend backend);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
// Compulsory bytes, and so many FLOP an element.
record::Cost cost(const Problem& problem, double flop);

// On a processor, what a norm without a mean writes beside y: rstd of every row, and the sum where there is one.
Status write_statistics(const Problem& problem, const Arguments& arguments, const Stream& stream);

// The kernels for processors, "cpu_rows".
Implementation forward_rows(const Kind& kind);
Implementation backward_rows();

}  // namespace ridge::ops::row_norm
