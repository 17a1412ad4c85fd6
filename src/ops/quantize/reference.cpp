// The definition, in fp64 and element by element.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

// Two roundings of the scale, one each of its reciprocal and of the product, and one to spare.
constexpr double kQuotientSlack = 5 * 0x1p-24;

struct Matrix {
  std::vector<double> values;
  std::int64_t rows = 0, cols = 0;
};

Matrix transpose(const Matrix& x) {
  Matrix flipped{std::vector<double>(x.values.size()), x.cols, x.rows};
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      flipped.values[static_cast<std::size_t>(c * x.rows + r)] = x.values[static_cast<std::size_t>(r * x.cols + c)];
    }
  }
  return flipped;
}

double power_of_two(double amax, const Shape& s) {
  const double most = numerics::max_value(s.format);
  int exponent = std::ilogb(amax) - std::ilogb(most);
  const double significand = std::ldexp(amax, -std::ilogb(amax));  // 1 to 2
  const int mantissa = s.format == DType::kE4m3fn ? 3 : 2;
  if (s.rule == ScaleRule::kEven && significand >= 2 - std::ldexp(1.0, -mantissa - 1)) ++exponent;
  if (s.rule == ScaleRule::kCeil && std::ldexp(amax, -exponent) > most) ++exponent;
  const int least = s.granularity == Granularity::kMx ? -127 : -126;
  return std::ldexp(1.0, std::clamp(exponent, least, 127));
}

double scale_of(double amax, const Shape& s) {
  if (amax == 0) return 1;
  return s.rule == ScaleRule::kExact ? std::max(amax / numerics::max_value(s.format), 0x1p-126) : power_of_two(amax, s);
}

void append(const numerics::RoundedOnce& element, ReferenceOutput& output) {
  output.value.push_back(element.value);
  output.allowed.push_back(element.allowed);
  output.ideal_square.push_back(element.ideal_square);
  output.shift.push_back(element.shift);
}

// The scale may be a division, or a product with a rounded reciprocal.
numerics::RoundedOnce stored_scale(double scale, const Shape& s) {
  if (s.rule != ScaleRule::kExact) {
    const double step = numerics::ulp(scale_dtype(s.granularity), scale) * 0x1p-10;
    return {scale, step, step * step / 4};
  }
  const double step = numerics::ulp(DType::kF32, scale);
  const double allowed = 2 * 0x1p-24 * scale * (1 + 0x1p-20);
  return {scale, allowed, step * step / 12, allowed};  // one rounded reciprocal serves every block
}

numerics::RoundedOnce code(double x, double scale, const Shape& s) {
  const double slack = s.rule == ScaleRule::kExact ? kQuotientSlack : 0;
  const double most = numerics::max_value(s.format), quotient = x / scale;
  const double bounded = std::isfinite(quotient) ? std::clamp(quotient, -most, most) : quotient;
  return s.stochastic ? numerics::rounded_stochastically(s.format, bounded, slack)
                      : numerics::rounded_once(s.format, bounded, slack);
}

// `given`: what the scale of the tensor is made of where it is not 0.
void quantize_copy(const Matrix& x, const Shape& s, double given, std::vector<ReferenceOutput>& outputs) {
  std::int64_t groups = 1;
  for (const std::int64_t extent : scale_shape(s.granularity, x.rows, x.cols)) groups *= extent;
  std::vector<double> scales(static_cast<std::size_t>(groups), 0.0);
  const auto group = [&](std::int64_t element) {
    return static_cast<std::size_t>(scale_index(s.granularity, x.rows, x.cols, element / x.cols, element % x.cols));
  };
  const auto count = static_cast<std::int64_t>(x.values.size());
  for (std::int64_t e = 0; e < count; ++e) {
    const double magnitude = std::fabs(x.values[static_cast<std::size_t>(e)]);
    if (std::isfinite(magnitude)) scales[group(e)] = std::max(scales[group(e)], magnitude);
  }
  ReferenceOutput q, stored;
  for (double& scale : scales) {
    scale = scale_of(given > 0 ? given : scale, s);
    append(stored_scale(scale, s), stored);
  }
  for (std::int64_t e = 0; e < count; ++e) append(code(x.values[static_cast<std::size_t>(e)], scales[group(e)], s), q);
  outputs.push_back(std::move(q));
  outputs.push_back(std::move(stored));
}

// Of an input: nothing is rounded.
ReferenceOutput largest_magnitude(const Matrix& x) {
  double found = 0;
  for (const double value : x.values) {
    found = std::isfinite(value) ? std::max(found, std::fabs(value)) : std::numeric_limits<double>::infinity();
    if (std::isinf(found)) break;
  }
  const double step = numerics::ulp(DType::kF32, std::isinf(found) ? 1.0 : found) * 0x1p-10;
  ReferenceOutput output;
  append({found, step, step * step / 4}, output);
  return output;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const Matrix x{numerics::to_doubles(operands[0]), s.rows, s.cols};
  RIDGE_TRY(given, given_amax(problem, operands));
  std::vector<ReferenceOutput> outputs;
  for (const Copy& copy : copies_of(s)) {
    quantize_copy(copy.transposed ? transpose(x) : x, s, static_cast<double>(std::bit_cast<float>(given)), outputs);
  }
  if (s.given) outputs.push_back(largest_magnitude(x));
  return outputs;
}

}  // namespace ridge::ops::quantize
