// The definition: the product of code and scale is exact in fp64.
#include "base/error.h"
#include "numerics/error_model.h"
#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const double slack = s.dtype == DType::kF32 ? 0 : 0x1p-24;  // the fp32 product is rounded once more
  ReferenceOutput y;
  for (const double product : dequantized(operands[0], false, operands[1], s.granularity)) {
    const numerics::RoundedOnce element = numerics::rounded_once(s.dtype, product, slack);
    y.value.push_back(element.value);
    y.allowed.push_back(element.allowed);
    y.ideal_square.push_back(element.ideal_square);
    y.shift.push_back(element.shift);
  }
  return std::vector{std::move(y)};
}

}  // namespace ridge::ops::dequantize
