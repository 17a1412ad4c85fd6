#include "record/expression.h"

#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
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

// With the functions of launch plans and no expression: copied, which costs less than defining them each time.
const mu::Parser& parser_of_plans() {
  static const mu::Parser parser = [] {
    mu::Parser made;
    made.DefineOprt(
        "%", [](double a, double b) { return std::fmod(a, b); }, mu::prMUL_DIV);
    made.DefineFun("ceil_div", ceil_div);
    made.DefineFun("floor_div", floor_div);
    made.DefineFun("round_up", round_up);
    made.DefineFun("walk_group", walk_group);
    made.DefineFun("walk_along", walk_along);
    return made;
  }();
  return parser;
}

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

// Calls `take` with every variable of an expression and where it begins: its words but those of functions and
// constants. The parser can tell, too, but needs a pass of its own for it.
template <class Take>
void for_each_variable(const std::string& text, Take take) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    while (i < text.size() && (continues_name(text[i]) || text[i] == '.')) ++i;
    if (i == begin) {
      ++i;
    } else if (starts_name(text[begin])) {  // else a number, whose exponent is no name
      const std::string name = text.substr(begin, i - begin);
      const std::size_t next = text.find_first_not_of(" \t\r\n", i);
      const bool called = next != std::string::npos && text[next] == '(';
      if (!called && !parser_of_plans().GetConst().contains(name)) take(name, begin);
    }
  }
}

std::set<std::string> variables_of(const std::string& text) {
  std::set<std::string> names;
  for_each_variable(text, [&](const std::string& name, std::size_t) { names.insert(name); });
  return names;
}

}  // namespace

// An expression that was parsed, with a place for the value of each of its variables.
struct ParsedExpression {
  std::optional<mu::Parser> parser;  // none where the whole text is a name, as most arguments of launches are
  std::vector<std::string> names;
  std::vector<double> slots;

  explicit ParsedExpression(const std::string& text) {
    for (const std::string& name : variables_of(text)) names.push_back(name);
    slots.assign(names.size(), 1.0);
    if (names.size() == 1 && names[0] == text) return;
    parser = parser_of_plans();
    for (std::size_t i = 0; i < names.size(); ++i) parser->DefineVar(names[i], &slots[i]);
    parser->SetExpr(text);
  }

  double value() const { return parser ? parser->Eval() : slots[0]; }
};

namespace {

// Each thread keeps what it parsed: a launch plan is evaluated for every new shape. Throws what muparser throws.
ParsedExpression& parsed(const std::string& text) {
  constexpr std::size_t kMost = 4096;  // texts come from candidates, too
  thread_local std::unordered_map<std::string, std::unique_ptr<ParsedExpression>> known;
  if (const auto found = known.find(text); found != known.end()) return *found->second;
  if (known.size() >= kMost) known.clear();
  auto made = std::make_unique<ParsedExpression>(text);
  made->value();  // what is no expression throws here and is not kept
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

std::string with_meanings(const std::string& text, const std::function<std::string(const std::string&)>& meant) {
  std::string result;
  std::size_t copied = 0;
  for_each_variable(text, [&](const std::string& name, std::size_t begin) {
    const std::string meaning = meant(name);
    if (meaning.empty()) return;
    result += text.substr(copied, begin - copied) + "(" + meaning + ")";
    copied = begin + name.size();
  });
  return result + text.substr(copied);
}

Result<double> evaluate_real(const std::string& text, const Variables& variables, const Reals& reals) {
  try {
    ParsedExpression& expression = parsed(text);
    for (std::size_t i = 0; i < expression.names.size(); ++i) {
      const std::string& name = expression.names[i];
      const auto whole = variables.find(name);
      const auto real = reals.find(name);
      if (whole == variables.end() && real == reals.end()) {
        return with_hint(wrong(text, fmt::format("{} is not known", name)), "known: " + known_names(variables, reals));
      }
      expression.slots[i] = real != reals.end() ? real->second : static_cast<double>(whole->second);
    }
    return expression.value();
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

struct OpenExpression::Bound {
  ParsedExpression parsed;
  // Where the value of each open name goes; null: the expression does not name it.
  std::vector<double*> open;
  explicit Bound(const std::string& text) : parsed(text) {}
};

OpenExpression::OpenExpression(const std::string& text, const Reals& known, std::span<const std::string> open)
    : bound_(std::make_unique<Bound>(text)) {
  ParsedExpression& parsed = bound_->parsed;
  const auto slot = [&](const std::string& name) -> double* {
    const auto found = std::ranges::find(parsed.names, name);
    return found == parsed.names.end() ? nullptr
                                       : &parsed.slots[static_cast<std::size_t>(found - parsed.names.begin())];
  };
  for (const std::string& name : open) bound_->open.push_back(slot(name));
  for (const auto& [name, value] : known) {
    if (double* const place = slot(name)) *place = value;
  }
  parsed.value();  // parses it now, not in a call
}

OpenExpression::OpenExpression(OpenExpression&&) noexcept = default;
OpenExpression& OpenExpression::operator=(OpenExpression&&) noexcept = default;
OpenExpression::~OpenExpression() = default;

double OpenExpression::at(std::span<const double> values) {
  for (std::size_t i = 0; i < bound_->open.size(); ++i) {
    if (bound_->open[i] != nullptr) *bound_->open[i] = values[i];
  }
  return bound_->parsed.value();
}

}  // namespace ridge::record
