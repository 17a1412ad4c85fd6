#include "numerics/error_model.h"

#include <algorithm>
#include <cmath>

#include "numerics/convert.h"
#include "numerics/format.h"

namespace ridge::numerics {

namespace {

double length_of(const Reduction& reduction) {
  return static_cast<double>(std::max<std::int64_t>(reduction.length, 0));
}

// k t / 2: what products below the smallest subnormal may lose.
double underflow(const Reduction& reduction) { return length_of(reduction) * min_positive(reduction.accumulate) / 2; }

// Expected square of the accumulated error of a straight loop.
double accumulated_square(const Reduction& reduction, double reference, double square_sum) {
  const double u = unit_roundoff(reduction.accumulate);
  return u * u * length_of(reduction) * (square_sum / 12 + reference * reference / 18);
}

double with_output_rounding(const Reduction& reduction, double reference, double accumulated) {
  return accumulated + ulp(reduction.output, std::fabs(reference) + accumulated) / 2;
}

}  // namespace

double unit_roundoff(DType dtype) { return std::ldexp(1.0, -(format_of(dtype).mantissa_bits + 1)); }

double accumulation_bound(const Reduction& reduction, double magnitude) {
  const double per_magnitude =
      kReductionConstant * unit_roundoff(reduction.accumulate) * std::sqrt(length_of(reduction));
  return per_magnitude * std::fabs(magnitude) + underflow(reduction);
}

double element_bound(const Reduction& reduction, double reference, double magnitude) {
  return with_output_rounding(reduction, reference, accumulation_bound(reduction, magnitude));
}

double element_bound_mixed_signs(const Reduction& reduction, double reference, double square_sum) {
  const double sigma = std::sqrt(accumulated_square(reduction, reference, square_sum));
  return with_output_rounding(reduction, reference, kMixedSignSigmas * sigma + underflow(reduction));
}

double ideal_square_error(const Reduction& reduction, double reference, double square_sum) {
  const double spacing = ulp(reduction.output, reference);
  return accumulated_square(reduction, reference, square_sum) + spacing * spacing / 12;
}

double rms_limit(std::int64_t count) {
  const auto n = static_cast<double>(std::max<std::int64_t>(count, 1));
  return kRmsFactor * std::sqrt(1 + 6 / std::sqrt(n) + 12 / n);
}

namespace {

// Of a number that is known exactly: a thousandth of a step, so that no other one passes.
RoundedOnce known(DType dtype, double value) {
  if (!std::isfinite(value)) return {value, 1, 1};
  const double allowed = ulp(dtype, value) * 0x1p-10;
  return {value, allowed, allowed * allowed / 4};
}

// The neighbours of a value on the format's grid, saturating; equal when it lies on it.
struct Neighbours {
  double below = 0, above = 0;
};
Neighbours neighbours(DType dtype, double value) {
  const double most = max_value(dtype), bounded = std::clamp(value, -most, most);
  const double step = ulp(dtype, bounded);
  return {std::floor(bounded / step) * step, std::ceil(bounded / step) * step};
}

}  // namespace

RoundedOnce rounded_once(DType dtype, double value, double slack) {
  if (!std::isfinite(value)) return known(dtype, round_to(dtype, value));
  // Below the normal numbers of fp32 its error is no longer relative: half of its smallest number.
  const double reach = slack > 0 && value != 0 ? std::max(slack * std::fabs(value), 0x1p-150) : 0;
  const double low = round_to(dtype, value - reach), high = round_to(dtype, value + reach);
  if (low == high) return known(dtype, round_to(dtype, value));
  // Either neighbour is right, so the same one everywhere is right as well: all of the error may be shift.
  const double step = ulp(dtype, value);
  if (!std::isfinite(high - low)) return {value, reach + step, step * step, reach + step};
  const double allowed = (high - low) / 2 + 2 * reach;
  return {value, allowed, (high - low) * (high - low) / 4, allowed};
}

RoundedOnce rounded_stochastically(DType dtype, double value, double slack) {
  if (!std::isfinite(value)) return known(dtype, round_to(dtype, value));
  const double reach = slack * std::fabs(value), step = ulp(dtype, value);
  const double below = neighbours(dtype, value - reach).below, above = neighbours(dtype, value + reach).above;
  if (below == above) return known(dtype, below);
  // Close to a neighbour the other one is drawn next to never, and one draw would weigh more than all the rest: no
  // square is taken for less than that of a uniform error.
  const double variance = std::max((value - below) * (above - value), step * step / 12);
  return {value, std::max(value - below, above - value) * (1 + 0x1p-20), variance};
}

}  // namespace ridge::numerics
