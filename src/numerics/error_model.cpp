#include "numerics/error_model.h"

#include <algorithm>
#include <cmath>

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

double bias_bound(double ideal_rms, std::int64_t count) {
  const auto n = static_cast<double>(std::max<std::int64_t>(count, 1));
  return ideal_rms * (0.1 + 8 / std::sqrt(n));
}

}  // namespace ridge::numerics
