#include "evaluate/verify.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "evaluate/judge.h"
#include "numerics/convert.h"

namespace ridge::evaluate {
namespace {

using record::Defence;
using record::Outcome;

std::string worst_element(const Operands& operands, std::size_t index, const TensorView& view, double found,
                          const ops::ReferenceOutput& reference, const Judgement& verdict) {
  const auto at = static_cast<std::size_t>(verdict.worst);
  const bool poison = operands.is_poison(index, verdict.worst);
  return fmt::format("{}{} = {:.9g}, expected {:.9g} +- {:.3g}{}; {} of {} elements are wrong",
                     operands.problem().operands[index].name, index_text(view, verdict.worst), found,
                     reference.value[at], reference.allowed[at], poison ? " (never written)" : "", verdict.wrong,
                     verdict.count);
}

Failure describe(const Operands& operands, std::size_t index, const TensorView& view, const std::vector<double>& found,
                 const ops::ReferenceOutput& reference, const Judgement& verdict) {
  const std::string& name = operands.problem().operands[index].name;
  if (operands.untouched(index))
    return {Outcome::kWrong, fmt::format("{} was not written at all", name), Defence::kPoison};
  if (operands.same_outputs_as_last()) {
    return {Outcome::kWrong, fmt::format("{} holds the previous call's result: stale output", name),
            Defence::kFreshInputs};
  }
  if (verdict.gate == Defence::kRms) {
    return {Outcome::kWrong,
            fmt::format("{}: the RMS error is {:.3g} times that of the ideal kernel, {:.3g} times is allowed; every "
                        "element is within its own bound ({:.2g} of it), so this is the work of a shorter type or of "
                        "a sum that leaves something out",
                        name, verdict.rms_ratio, verdict.rms_limit, verdict.error_ratio),
            Defence::kRms};
  }
  if (verdict.gate == Defence::kBias) {
    return {Outcome::kWrong,
            fmt::format("{}: errors lean to one side by {:.3g} of the ideal kernel's RMS error, {:.3g} is allowed: "
                        "truncation instead of rounding",
                        name, verdict.bias.mean, verdict.bias.limit),
            Defence::kBias};
  }
  const bool poison = operands.is_poison(index, verdict.worst);
  const double worst = found[static_cast<std::size_t>(verdict.worst)];
  return {Outcome::kWrong, worst_element(operands, index, view, worst, reference, verdict),
          poison ? Defence::kPoison : verdict.gate};
}

Status fits(const ops::Operator& op, const std::vector<ops::ReferenceOutput>& references, std::size_t output,
            const TensorView& view) {
  const auto count = static_cast<std::size_t>(view.element_count());
  if (output < references.size() && references[output].value.size() == count &&
      references[output].allowed.size() == count && references[output].ideal_square.size() == count) {
    return ok_status();
  }
  return make_error(ErrorCode::kInternal, "the reference of {} does not fit its outputs", op.name);
}

void take_note(const Judgement& verdict, Verification& into) {
  into.elements += verdict.count;
  ++into.compared;
  into.max_error_ratio = std::max(into.max_error_ratio, verdict.error_ratio);
  into.rms_error_ratio = std::max(into.rms_error_ratio, verdict.rms_ratio);
  into.snr_db = into.calls == 0 ? verdict.snr_db : std::min(into.snr_db, verdict.snr_db);
}

}  // namespace

void Evidence::add(std::size_t output, const std::string& trivial) {
  const auto [at, first] = open_.emplace(output, trivial);
  if (!first && trivial.empty()) at->second.clear();
}

std::string Evidence::missing() const {
  const auto found = std::find_if(open_.begin(), open_.end(), [](const auto& one) { return !one.second.empty(); });
  return found == open_.end() ? std::string() : found->second;
}

Verdict verify_fully(const ops::Operator& op, const Operands& operands, Verification& into) {
  RIDGE_CHECK_OK(operands.damage());
  const std::vector<TensorView> before = operands.before(), after = operands.after();
  RIDGE_TRY(references, op.reference(operands.problem(), {before, operands.scalars()}));
  std::size_t output = 0;
  const bool examined = into.full_comparisons > 1 || !into.uninformative.empty();
  std::vector<std::string> trivial;  // by output, why it shows nothing
  into.first_outputs.resize(references.size());
  for (std::size_t i = 0; i < operands.problem().operands.size(); ++i) {
    if (!operands.problem().operands[i].output) continue;
    RIDGE_CHECK_OK(fits(op, references, output, after[i]));
    const ops::ReferenceOutput& reference = references[output++];
    const std::vector<double> found = numerics::to_doubles(after[i]);
    const Judgement verdict = judge(found, reference, after[i].dtype, operands.defences());
    take_note(verdict, into);
    if (!verdict.right()) return describe(operands, i, after[i], found, reference, verdict);
    if (examined) continue;
    std::vector<double>& first = into.first_outputs[output - 1];
    trivial.push_back(trivial_predictor(operands.problem(), before, i, reference, first));
    first = found;
  }
  // One output that nothing trivial predicts is enough: beside codes a single scale is always a constant.
  const bool shows = std::any_of(trivial.begin(), trivial.end(), [](const std::string& why) { return why.empty(); });
  if (!shows && !trivial.empty()) into.uninformative = trivial.front();
  ++into.calls;
  ++into.full_comparisons;
  return passed();
}

Verdict verify_quickly(const ops::Operator& op, const Operands& operands, std::uint64_t seed, Verification& into) {
  RIDGE_CHECK_OK(operands.damage());
  const std::vector<TensorView> after = operands.after();
  RIDGE_TRY(spot, op.spot_check(operands.problem(), {after, operands.scalars()}, seed));
  const bool passes = spot.residual <= spot.allowed || !operands.defences().on(Defence::kProjection);
  if (spot.finite && passes) {
    ++into.calls;
    return passed();
  }
  RIDGE_CHECK_OK(verify_fully(op, operands, into));
  if (!spot.finite) return passed();  // an overflow that the reference shares is right
  // The projection sees sums of errors that are each within their own bound: systematic error, not rounding.
  return Failure{
      Outcome::kWrong,
      fmt::format("a secret projection of the output is off: {}; single elements are within their bounds, so the "
                  "error is systematic",
                  spot.detail),
      Defence::kProjection};
}

}  // namespace ridge::evaluate
