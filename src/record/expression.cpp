#include "record/expression.h"

#include <muParser.h>

#include <cmath>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "record/expression_problem.h"
#include "record/tile_walk.h"

namespace ridge::record {
namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53

double ceil_div(double a, double b) { return std::ceil(a / b); }
double floor_div(double a, double b) { return std::floor(a / b); }
double round_up(double a, double b) { return std::ceil(a / b) * b; }

TileWalk walk(double high, double wide, double rows, double cols, double clusters) {
  const auto count = [](double x) { return static_cast<std::int64_t>(x); };
  return tile_walk(count(high), count(wide), count(rows), count(cols), count(clusters));
}
double walk_group(double high, double wide, double rows, double cols, double clusters) {
  return static_cast<double>(walk(high, wide, rows, cols, clusters).group);
}
double walk_along(double high, double wide, double rows, double cols, double clusters) {
  return static_cast<double>(walk(high, wide, rows, cols, clusters).along);
}

// An expression that was parsed, with a place for the value of each of its variables.
struct Parsed {
  mu::Parser parser;
  std::vector<std::string> names;
  std::vector<double> slots;

  explicit Parsed(const std::string& text) {
    parser.DefineOprt(
        "%", [](double a, double b) { return std::fmod(a, b); }, mu::prMUL_DIV);
    parser.DefineFun("ceil_div", ceil_div);
    parser.DefineFun("floor_div", floor_div);
    parser.DefineFun("round_up", round_up);
    parser.DefineFun("walk_group", walk_group);
    parser.DefineFun("walk_along", walk_along);
    parser.SetExpr(text);
    for (const auto& [name, unused] : parser.GetUsedVar()) names.push_back(name);
    slots.assign(names.size(), 1.0);
    for (std::size_t i = 0; i < names.size(); ++i) parser.DefineVar(names[i], &slots[i]);
  }
};

// Each thread keeps what it parsed: a launch plan is evaluated for every new shape. Throws what muparser throws.
Parsed& parsed(const std::string& text) {
  constexpr std::size_t kMost = 4096;  // texts come from candidates, too
  thread_local std::unordered_map<std::string, std::unique_ptr<Parsed>> known;
  if (const auto found = known.find(text); found != known.end()) return *found->second;
  if (known.size() >= kMost) known.clear();
  auto made = std::make_unique<Parsed>(text);
  made->parser.Eval();  // what is no expression throws here and is not kept
  return *(known[text] = std::move(made));
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
    return parsed(text).names;
  } catch (const mu::Parser::exception_type& failure) {
    return wrong(text, expression_problem(failure));
  }
}

Result<double> evaluate_real(const std::string& text, const Variables& variables, const Reals& reals) {
  try {
    Parsed& expression = parsed(text);
    for (std::size_t i = 0; i < expression.names.size(); ++i) {
      const std::string& name = expression.names[i];
      const auto whole = variables.find(name);
      const auto real = reals.find(name);
      if (whole == variables.end() && real == reals.end()) {
        return with_hint(wrong(text, fmt::format("{} is not known", name)), "known: " + known_names(variables, reals));
      }
      expression.slots[i] = real != reals.end() ? real->second : static_cast<double>(whole->second);
    }
    return expression.parser.Eval();
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
