#include "evaluate/verify.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;

std::string index_text(const TensorView& view, std::int64_t element) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(view.rank));
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    index[at] = element % view.shape[at];
    element /= view.shape[at];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

// |error| / allowed of one element; infinite for a NaN or an infinity that is not expected with that very sign. An
// infinity is right where a value within the bound rounds to it in the output's element type.
double error_ratio(double got, double expected, double allowed, DType dtype) {
  if (std::isnan(expected)) return std::isnan(got) ? 0.0 : HUGE_VAL;
  if (std::isinf(got)) {
    const double edge = numerics::round_to(dtype, expected + std::copysign(allowed, got));
    return edge == got ? 0.0 : HUGE_VAL;
  }
  if (std::isinf(expected) || !std::isfinite(got)) return HUGE_VAL;
  const double error = std::abs(got - expected);
  if (error == 0) return 0.0;
  return allowed > 0 ? error / allowed : HUGE_VAL;
}

struct Comparison {
  double worst_ratio = 0, error_squares = 0, value_squares = 0, ratio_squares = 0;
  std::int64_t worst = -1, wrong = 0, count = 0;
};

Comparison compare(const std::vector<double>& got, const ops::ReferenceOutput& reference, DType dtype) {
  Comparison c;
  c.count = static_cast<std::int64_t>(got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double ratio = error_ratio(got[i], reference.value[i], reference.allowed[i], dtype);
    if (ratio > 1.0) ++c.wrong;
    if (ratio > c.worst_ratio || c.worst < 0) {
      c.worst_ratio = ratio;
      c.worst = static_cast<std::int64_t>(i);
    }
    if (std::isfinite(got[i]) && std::isfinite(reference.value[i])) {
      const double error = got[i] - reference.value[i];
      c.error_squares += error * error;
      c.value_squares += reference.value[i] * reference.value[i];
      c.ratio_squares += std::min(ratio, 1e6) * std::min(ratio, 1e6);
    }
  }
  return c;
}

Failure describe(const Operands& operands, std::size_t index, const TensorView& view, const std::vector<double>& got,
                 const ops::ReferenceOutput& reference, const Comparison& c) {
  const std::string& name = operands.problem().operands[index].name;
  if (operands.untouched(index)) return {Outcome::kWrong, fmt::format("{} was not written at all", name)};
  if (operands.same_outputs_as_last()) {
    return {Outcome::kWrong, fmt::format("{} holds the previous call's result: stale output", name)};
  }
  const auto at = static_cast<std::size_t>(c.worst);
  std::string text = fmt::format("{}{} = {:.9g}, expected {:.9g} +- {:.3g}", name, index_text(view, c.worst), got[at],
                                 reference.value[at], reference.allowed[at]);
  if (operands.is_poison(index, c.worst)) text += " (never written)";
  return {Outcome::kWrong, fmt::format("{}; {} of {} elements are wrong", text, c.wrong, c.count)};
}

}  // namespace

Result<std::optional<Failure>> verify_fully(const ops::Operator& op, const Operands& operands, Verification& into) {
  if (const auto damage = operands.damage()) return std::optional(Failure{Outcome::kWrong, *damage});
  const std::vector<TensorView> before = operands.before(), after = operands.after();
  RIDGE_TRY(references, op.reference(operands.problem(), before));
  std::size_t output = 0;
  for (std::size_t i = 0; i < operands.problem().operands.size(); ++i) {
    if (!operands.problem().operands[i].output) continue;
    if (output >= references.size() || references[output].value.size() != references[output].allowed.size() ||
        static_cast<std::int64_t>(references[output].value.size()) != after[i].element_count()) {
      return make_error(ErrorCode::kInternal, "the reference of {} does not fit its outputs", op.name);
    }
    const ops::ReferenceOutput& reference = references[output++];
    const std::vector<double> got = numerics::to_doubles(after[i]);
    const Comparison c = compare(got, reference, after[i].dtype);
    into.elements += c.count;
    into.max_error_ratio = std::max(into.max_error_ratio, c.worst_ratio);
    if (c.count > 0) {
      into.rms_error_ratio = std::max(into.rms_error_ratio, std::sqrt(c.ratio_squares / static_cast<double>(c.count)));
      const double snr = c.error_squares > 0 ? 10.0 * std::log10(c.value_squares / c.error_squares) : 300.0;
      into.snr_db = into.calls == 0 ? snr : std::min(into.snr_db, snr);
    }
    if (c.wrong > 0) return std::optional(describe(operands, i, after[i], got, reference, c));
  }
  ++into.calls;
  return std::optional<Failure>();
}

Result<std::optional<Failure>> verify_quickly(const ops::Operator& op, const Operands& operands, std::uint64_t seed,
                                              Verification& into) {
  if (const auto damage = operands.damage()) return std::optional(Failure{Outcome::kWrong, *damage});
  const std::vector<TensorView> after = operands.after();
  RIDGE_TRY(spot, op.spot_check(operands.problem(), after, seed));
  if (spot.finite && spot.residual <= spot.allowed) {
    ++into.calls;
    return std::optional<Failure>();
  }
  RIDGE_TRY(failure, verify_fully(op, operands, into));
  if (failure || !spot.finite) return failure;  // an overflow that the reference shares is right
  // The projection sees sums of errors that are each within their own bound: systematic error, not rounding.
  return std::optional(
      Failure{Outcome::kWrong, fmt::format("a secret projection of the output is off: {}; single elements are within "
                                           "their bounds, so the error is systematic",
                                           spot.detail)});
}

}  // namespace ridge::evaluate
