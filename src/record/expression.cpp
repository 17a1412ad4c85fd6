#include "record/expression.h"

#include <muParser.h>

#include <cmath>

#include "base/error.h"
#include "record/expression_problem.h"

namespace ridge::record {
namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53

double ceil_div(double a, double b) { return std::ceil(a / b); }
double floor_div(double a, double b) { return std::floor(a / b); }
double round_up(double a, double b) { return std::ceil(a / b) * b; }

mu::Parser make_parser(const std::string& text) {
  mu::Parser parser;
  parser.DefineOprt(
      "%", [](double a, double b) { return std::fmod(a, b); }, mu::prMUL_DIV);
  parser.DefineFun("ceil_div", ceil_div);
  parser.DefineFun("floor_div", floor_div);
  parser.DefineFun("round_up", round_up);
  parser.SetExpr(text);
  return parser;
}

std::string known_names(const Variables& variables, const Reals& reals) {
  std::string names;
  for (const auto& [name, value] : variables) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, value] : reals) names += (names.empty() ? "" : ", ") + name;
  return names;
}

Error wrong(const std::string& text, const std::string& what) { return invalid("expression \"{}\": {}", text, what); }

}  // namespace

Result<std::vector<std::string>> expression_variables(const std::string& text) {
  try {
    mu::Parser parser = make_parser(text);
    std::vector<std::string> names;
    for (const auto& [name, unused] : parser.GetUsedVar()) names.push_back(name);
    std::vector<double> slots(names.size(), 1.0);
    for (std::size_t i = 0; i < names.size(); ++i) parser.DefineVar(names[i], &slots[i]);
    parser.Eval();
    return names;
  } catch (const mu::Parser::exception_type& failure) {
    return wrong(text, expression_problem(failure));
  }
}

Result<double> evaluate_real(const std::string& text, const Variables& variables, const Reals& reals) {
  try {
    mu::Parser parser = make_parser(text);
    std::map<std::string, double> slots;
    for (const auto& [name, unused] : parser.GetUsedVar()) {
      const auto whole = variables.find(name);
      const auto real = reals.find(name);
      if (whole == variables.end() && real == reals.end()) {
        return with_hint(wrong(text, fmt::format("{} is not known", name)), "known: " + known_names(variables, reals));
      }
      slots[name] = real != reals.end() ? real->second : static_cast<double>(whole->second);
    }
    for (auto& [name, value] : slots) parser.DefineVar(name, &value);
    return parser.Eval();
  } catch (const mu::Parser::exception_type& failure) {
    return wrong(text, expression_problem(failure));
  }
}

Result<std::int64_t> evaluate(const std::string& text, const Variables& variables, const Reals& reals) {
  RIDGE_TRY(value, evaluate_real(text, variables, reals));
  if (!std::isfinite(value)) return wrong(text, "division by zero, or a value too large");
  if (std::abs(value) > kExact) return wrong(text, fmt::format("{:.17g} is beyond 2^53", value));
  if (value != std::nearbyint(value)) {
    return with_hint(wrong(text, fmt::format("{:.17g} is no integer", value)),
                     "write ceil_div(a, b) or floor_div(a, b)");
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace ridge::record
