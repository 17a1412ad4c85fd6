// The definition: codes and scales of y as x and the offsets say, element by element.
#include "numerics/convert.h"
#include "ops/coding/device_check.h"
#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {
namespace {

// Rows of y in row-major order, and where its groups begin.
struct Padded {
  std::vector<rows::Number> y;
  ReferenceOutput offsets;
};

Padded padded_of(const Shape& s, const TensorView& x, std::span<const std::int64_t> offsets) {
  const std::vector<double> from = numerics::to_doubles(x);
  Padded made;
  made.offsets.value.push_back(0);
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    for (std::int64_t i = offsets[g] * s.cols; i < offsets[g + 1] * s.cols; ++i) {
      made.y.push_back(right_codes::in_fp32(from[static_cast<std::size_t>(i)]));
    }
    std::int64_t row = offsets[g + 1] - offsets[g];
    for (; row % s.align != 0; ++row) made.y.insert(made.y.end(), static_cast<std::size_t>(s.cols), rows::Number(0));
    made.offsets.value.push_back(made.offsets.value.back() + static_cast<double>(row));
  }
  made.offsets.allowed.assign(made.offsets.value.size(), 0.0);
  made.offsets.ideal_square = made.offsets.allowed;
  made.y.resize(static_cast<std::size_t>(s.capacity * s.cols), rows::Number(0));
  return made;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = read_offsets(arguments[kOffsetsOperand]);
  RIDGE_CHECK_OK(check_offsets(problem.problem_case.op, offsets, s.rows));
  Padded padded = padded_of(s, arguments[kX], offsets);
  std::vector<std::int64_t> ends(padded.offsets.value.begin() + 1, padded.offsets.value.end());
  ends.back() = s.capacity;  // zeros behind all groups change no scale
  RIDGE_TRY(coded, coding::reference_of(problem, arguments.operands, coding_of(problem), padded.y, ends));
  coded.insert(coded.begin(), std::move(padded.offsets));
  return coded;
}

}  // namespace ridge::ops::grouped_quantize
