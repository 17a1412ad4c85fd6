#include "numerics/error_model.h"

#include <algorithm>
#include <cmath>

#include "numerics/format.h"

namespace ridge::numerics {

double unit_roundoff(DType dtype) { return std::ldexp(1.0, -(format_of(dtype).mantissa_bits + 1)); }

double accumulation_bound(const Reduction& reduction, double magnitude) {
  const auto k = static_cast<double>(std::max<std::int64_t>(reduction.length, 0));
  const double rounding =
      kReductionConstant * unit_roundoff(reduction.accumulate) * std::sqrt(k) * std::fabs(magnitude);
  return rounding + k * min_positive(reduction.accumulate) / 2;
}

double element_bound(const Reduction& reduction, double reference, double magnitude) {
  const double accumulated = accumulation_bound(reduction, magnitude);
  return accumulated + ulp(reduction.output, std::fabs(reference) + accumulated) / 2;
}

double ideal_square_error(const Reduction& reduction, double reference, double square_sum) {
  const auto k = static_cast<double>(std::max<std::int64_t>(reduction.length, 0));
  const double u = unit_roundoff(reduction.accumulate);
  const double spacing = ulp(reduction.output, reference);
  return u * u * k * (square_sum / 12 + reference * reference / 18) + spacing * spacing / 12;
}

double bias_bound(double ideal_rms, std::int64_t count) {
  const auto n = static_cast<double>(std::max<std::int64_t>(count, 1));
  return ideal_rms * (0.1 + 8 / std::sqrt(n));
}

}  // namespace ridge::numerics
