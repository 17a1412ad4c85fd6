#include "evaluate/judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"

namespace ridge::evaluate {
namespace {

using record::Defence;

// |error| / allowed of one element; infinite for a NaN or an infinity that is not expected with that very sign. An
// infinite `allowed` for a finite number: anything is right.
double error_ratio(double found, double expected, double allowed, DType dtype) {
  if (std::isinf(allowed) && std::isfinite(expected)) return 0.0;
  if (std::isnan(expected)) return std::isnan(found) ? 0.0 : HUGE_VAL;
  if (std::isinf(found)) {
    const double edge = numerics::round_to(dtype, expected + std::copysign(allowed, found));
    return edge == found ? 0.0 : HUGE_VAL;
  }
  if (std::isinf(expected) || !std::isfinite(found)) return HUGE_VAL;
  const double error = std::abs(found - expected);
  if (error == 0) return 0.0;
  return allowed > 0 ? error / allowed : HUGE_VAL;
}

struct Sums {
  double error_squares = 0, value_squares = 0, ideal_units = 0;
  std::int64_t finite = 0;
};

void add_finite(double found, double expected, double ideal_square, Sums& sums) {
  const double error = found - expected;
  sums.error_squares += error * error;
  sums.value_squares += expected * expected;
  sums.ideal_units += error == 0 ? 0.0 : error * error / ideal_square;
  ++sums.finite;
}

// How many of the values are different ones, from a sample: equal sums of blocks of equal terms round alike, and errors
// that are copies of each other say no more than one.
std::int64_t distinct_values(const std::vector<double>& values) {
  constexpr std::size_t kSample = 2048;
  const std::size_t step = std::max<std::size_t>(1, values.size() / kSample);
  std::vector<double> sample;
  for (std::size_t i = 0; i < values.size(); i += step) {
    if (std::isfinite(values[i])) sample.push_back(values[i]);
  }
  if (sample.empty()) return 0;
  const auto size = static_cast<double>(sample.size());
  std::sort(sample.begin(), sample.end());
  const auto distinct = std::unique(sample.begin(), sample.end()) - sample.begin();
  return std::max<std::int64_t>(
      1, std::llround(static_cast<double>(distinct) / size * static_cast<double>(values.size())));
}

void finish(const Sums& sums, const std::vector<double>& values, Judgement& result) {
  if (sums.finite == 0) return;
  const auto n = static_cast<double>(sums.finite);
  const std::int64_t independent = std::min(sums.finite, distinct_values(values));
  result.rms_ratio = std::sqrt(sums.ideal_units / n);
  result.rms_limit = numerics::rms_limit(independent);
  if (sums.error_squares > 0) result.snr_db = 10.0 * std::log10(sums.value_squares / sums.error_squares);
}

}  // namespace

Judgement judge(std::span<const double> found, const ops::ReferenceOutput& reference, DType dtype,
                const Defences& defences) {
  Judgement result;
  Sums sums;
  numerics::BiasTest bias(dtype);
  result.count = static_cast<std::int64_t>(found.size());
  bool wrong_kind = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double ratio = error_ratio(found[i], reference.value[i], reference.allowed[i], dtype);
    if (ratio > 1.0) ++result.wrong;
    if (ratio > result.error_ratio || result.worst < 0) {
      result.error_ratio = ratio;
      result.worst = static_cast<std::int64_t>(i);
    }
    const bool both_finite = std::isfinite(found[i]) && std::isfinite(reference.value[i]);
    wrong_kind = wrong_kind || (!both_finite && ratio > 1.0);
    if (!both_finite) continue;
    add_finite(found[i], reference.value[i], reference.ideal_square[i], sums);
    if (reference.ideal_square[i] == 0) continue;  // exact: nothing to lean
    bias.add(found[i], reference.value[i], reference.ideal_square[i], reference.shift.empty() ? 0 : reference.shift[i]);
  }
  finish(sums, reference.value, result);
  result.bias = bias.verdict();
  if (wrong_kind && defences.on(Defence::kNonfinite)) {
    result.gate = Defence::kNonfinite;
  } else if (!wrong_kind && !(result.error_ratio <= 1.0) && defences.on(Defence::kElementBound)) {
    result.gate = Defence::kElementBound;
  } else if (result.rms_ratio > result.rms_limit && defences.on(Defence::kRms)) {
    result.gate = Defence::kRms;
  } else if (result.bias.leans() && defences.on(Defence::kBias)) {
    result.gate = Defence::kBias;
  }
  return result;
}

namespace {

constexpr double kMargin = 4;

bool nearly_passes(std::span<const double> predicted, const ops::ReferenceOutput& reference, DType dtype) {
  const Judgement verdict = judge(predicted, reference, dtype);
  return verdict.error_ratio <= kMargin && verdict.rms_ratio <= kMargin * verdict.rms_limit;
}

// The constant with the smallest RMS error, which is the mean.
double best_constant(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::string trivial_predictor(const ops::Problem& problem, std::span<const TensorView> operands, std::size_t output,
                              const ops::ReferenceOutput& reference, std::span<const double> previous) {
  const DType dtype = problem.operands[output].dtype;
  const std::size_t count = reference.value.size();
  if (count == 0) return "there is no element to compute";
  const auto constant = [&](double value) { return std::vector<double>(count, numerics::round_to(dtype, value)); };
  if (nearly_passes(constant(0.0), reference, dtype)) return "zeros pass";
  if (nearly_passes(constant(best_constant(reference.value)), reference, dtype)) return "a constant passes";
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const ops::OperandSpec& spec = problem.operands[i];
    if ((spec.output && !spec.read_write) || spec.element_count() != static_cast<std::int64_t>(count)) continue;
    if (nearly_passes(numerics::to_doubles(operands[i]), reference, dtype)) {
      return fmt::format("a copy of {} passes", spec.name);
    }
  }
  if (previous.size() == count && nearly_passes(previous, reference, dtype)) return "the previous output passes";
  return {};
}

}  // namespace ridge::evaluate
