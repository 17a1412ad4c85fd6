#include "numerics/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/check.h"
#include "numerics/convert.h"
#include "numerics/format.h"

namespace ridge::numerics {
namespace {

struct Sums {
  double reference_squares = 0, value_squares = 0, error_squares = 0, products = 0, signed_errors = 0;
};

// Counts the element if one of the two is not finite; true when it did.
bool special(double reference, double value, std::int64_t index, Comparison& result) {
  if (std::isfinite(reference) && std::isfinite(value)) return false;
  const bool agree = (std::isnan(reference) && std::isnan(value)) || reference == value;
  if (agree) return true;
  if (std::isnan(reference)) {
    ++result.nan_missing;
  } else if (std::isnan(value)) {
    ++result.nan_unexpected;
  } else if (std::isinf(reference) && std::isinf(value)) {
    ++result.inf_wrong_sign;
  } else if (std::isinf(reference)) {
    ++result.inf_missing;
  } else {
    ++result.inf_unexpected;
  }
  if (result.first_mismatch < 0) result.first_mismatch = index;
  return true;
}

void raise(double candidate, std::int64_t index, double& largest, std::int64_t& at) {
  if (candidate > largest || at < 0) {
    largest = candidate;
    at = index;
  }
}

void finish(const Sums& sums, Comparison& result) {
  if (result.finite_count == 0) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(result.finite_count);
  result.rms_error = std::sqrt(sums.error_squares / n);
  result.rms_reference = std::sqrt(sums.reference_squares / n);
  result.bias = sums.signed_errors / n;
  const bool equal = sums.error_squares == 0;
  result.snr_db = equal ? kInfinity : 10 * std::log10(sums.reference_squares / sums.error_squares);
  result.relative_error = equal ? 0 : std::sqrt(sums.error_squares / sums.reference_squares);
  const double norms = std::sqrt(sums.reference_squares) * std::sqrt(sums.value_squares);
  result.cosine = norms > 0 ? sums.products / norms : (equal ? 1 : 0);
}

}  // namespace

std::string Comparison::describe_mismatches() const {
  std::string text;
  const auto add = [&text](std::int64_t elements, std::string_view what) {
    if (elements > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", elements, what);
  };
  add(nan_unexpected, "NaN unexpected");
  add(nan_missing, "NaN missing");
  add(inf_unexpected, "Inf unexpected");
  add(inf_missing, "Inf missing");
  add(inf_wrong_sign, "Inf of the wrong sign");
  return text.empty() ? text : fmt::format("{}, first at {}", text, first_mismatch);
}

Comparison compare(std::span<const double> reference, std::span<const double> values, DType dtype,
                   std::span<const double> allowed) {
  check(reference.size() == values.size(), "compare: one value per reference");
  check(allowed.empty() || allowed.size() == values.size(), "compare: one limit per reference");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Comparison result;
  Sums sums;
  result.count = static_cast<std::int64_t>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const double ref = reference[i], x = values[i];
    if (special(ref, x, index, result)) continue;
    ++result.finite_count;
    const double error = x - ref;
    const double magnitude = std::fabs(error);
    sums.reference_squares += ref * ref;
    sums.value_squares += x * x;
    sums.error_squares += error * error;
    sums.products += ref * x;
    sums.signed_errors += std::copysign(1.0, ref) * error;
    raise(magnitude, index, result.max_abs_error, result.max_abs_index);
    if (ref != 0) raise(magnitude / std::fabs(ref), index, result.max_relative_error, result.max_relative_index);
    raise(magnitude / ulp(dtype, ref), index, result.max_ulp_error, result.max_ulp_index);
    if (allowed.empty()) continue;
    const double ratio = magnitude == 0 ? 0 : allowed[i] > 0 ? magnitude / allowed[i] : kInfinity;
    raise(ratio, index, result.max_error_ratio, result.max_ratio_index);
  }
  finish(sums, result);
  return result;
}

std::int64_t ulp_distance(DType dtype, double a, double b) {
  const Rounding saturate{.saturate = true};
  if (std::isnan(a) || std::isnan(b)) return -1;
  if (is_integer(dtype)) return static_cast<std::int64_t>(std::fabs(a - b));
  const std::uint64_t sign = format_of(dtype).sign_bit();
  const auto rank = [&](double x) -> std::int64_t {
    const std::uint64_t code = encode(dtype, x, saturate);
    if (dtype == DType::kE8m0) return static_cast<std::int64_t>(code);
    const auto magnitude = static_cast<std::int64_t>(code & (sign - 1));
    return (code & sign) != 0 ? -magnitude : magnitude;
  };
  if (dtype == DType::kE8m0 && (a < 0 || b < 0)) return -1;
  const std::int64_t low = std::min(rank(a), rank(b)), high = std::max(rank(a), rank(b));
  return high - low;
}

}  // namespace ridge::numerics
