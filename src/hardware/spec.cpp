#include "hardware/spec.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::hardware {

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::kVendor: return "vendor";
    case Evidence::kDerived: return "derived";
    case Evidence::kMeasured: return "measured";
    case Evidence::kThirdParty: return "third-party";
  }
  return "?";
}

std::string_view Fact::conflict_status() const {
  if (also.empty()) return "single source";
  const bool same = std::all_of(also.begin(), also.end(), [&](const OtherSource& o) { return agree(value, o.value); });
  return same ? "agreed" : conflict.empty() ? "open" : "resolved";
}

std::string Fact::citation() const {
  if (state == State::kUnknown) return fmt::format("{}: UNKNOWN ({})", metric->name, reason);
  if (state == State::kNone) return fmt::format("{}: none ({})", metric->name, reason);
  return fmt::format("{}: {} <- {}", metric->name, value.text, from);
}

const Fact* Spec::find(std::string_view metric) const {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.metric->name == metric; });
  return found == facts.end() ? nullptr : &*found;
}

Result<double> Spec::value(std::string_view metric) const {
  if (find_metric(metric) == nullptr) return make_error(ErrorCode::kNotFound, "there is no metric \"{}\"", metric);
  const Fact* fact = find(metric);
  if (fact == nullptr) {
    return make_error(ErrorCode::kUnsupported, "{}: {}: UNKNOWN ({} does not state it)", name, metric, file);
  }
  if (fact->state != State::kKnown) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: {}", name, fact->citation()),
                     "measure it with ridge ceilings or ridge spec probe, or find a document that states it");
  }
  return fact->value.value;
}

double Spec::value_or(std::string_view metric, double otherwise) const {
  const Fact* fact = find(metric);
  return fact != nullptr && fact->state == State::kKnown ? fact->value.value : otherwise;
}

namespace {

Result<double> term(const Spec& spec, std::string_view word, double* rounding) {
  if (!word.empty() && word.front() >= '0' && word.front() <= '9') return std::stod(std::string(word));
  RIDGE_TRY(value, spec.value(word));
  if (rounding != nullptr) *rounding += spec.find(word)->value.half_ulp / value;
  return value;
}

}  // namespace

Result<double> evaluate(const Spec& spec, std::string_view formula, double* rounding) {
  double value = 1;
  char operation = '*';
  std::size_t position = 0;
  while (true) {
    const std::size_t end = std::min(formula.find(' ', position), formula.size());
    RIDGE_TRY(operand, term(spec, formula.substr(position, end - position), rounding));
    value = operation == '*' ? value * operand : value / operand;
    if (end == formula.size()) return value;
    operation = end + 1 < formula.size() ? formula[end + 1] : ' ';
    position = end + 3;
    if ((operation != '*' && operation != '/') || position >= formula.size() || formula[end + 2] != ' ') {
      return invalid("\"{}\" is not names and numbers joined by \" * \" and \" / \"", formula);
    }
  }
}

}  // namespace ridge::hardware
