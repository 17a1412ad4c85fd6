#include "propose/space.h"

#include <muParser.h>

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>

#include <set>

#include "base/error.h"
#include "record/expression_problem.h"

namespace ridge::propose {

std::uint64_t Random::next() {  // splitmix64
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// One parsed expression; its variables are bound to slots that evaluate() fills.
class Space::Expression {
 public:
  static Result<std::shared_ptr<Expression>> parse(const std::string& text, const record::TuneSpace& declared) {
    auto made = std::make_shared<Expression>();
    try {
      made->parser_.DefineOprt(
          "%", [](double a, double b) { return std::fmod(a, b); }, mu::prMUL_DIV);
      made->parser_.SetExpr(text);
      for (const auto& [name, unused] : made->parser_.GetUsedVar()) made->names_.push_back(name);
      for (const std::string& name : made->names_) {
        const bool known = std::ranges::any_of(declared.tunables, [&](const auto& t) { return t.name == name; });
        if (!known) return invalid("expression \"{}\": {} is not a tunable", text, name);
      }
      made->slots_.resize(made->names_.size());
      for (std::size_t i = 0; i < made->names_.size(); ++i) made->parser_.DefineVar(made->names_[i], &made->slots_[i]);
      std::ranges::fill(made->slots_, 1.0);
      made->parser_.Eval();
    } catch (const mu::Parser::exception_type& failure) {
      return invalid("expression \"{}\": {}", text, record::expression_problem(failure));
    }
    return made;
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  bool holds(const Config& config) {
    for (std::size_t i = 0; i < names_.size(); ++i) slots_[i] = static_cast<double>(config.at(names_[i]));
    try {
      const double value = parser_.Eval();
      return value != 0.0 && !std::isnan(value);
    } catch (const mu::Parser::exception_type&) {
      return false;
    }
  }

  std::string values(const Config& config) const {
    Config used;
    for (const std::string& name : names_) used[name] = config.at(name);
    return to_text(used);
  }

 private:
  mu::Parser parser_;
  std::vector<std::string> names_;
  std::vector<double> slots_;
};

Result<Space> Space::create(record::TuneSpace declared) {
  Space space(std::move(declared));
  for (const record::Constraint& constraint : space.declared_.constraints) {
    RIDGE_TRY(expression, Expression::parse(constraint.expression, space.declared_));
    space.constraints_.push_back(expression);
  }
  for (const record::Tunable& tunable : space.declared_.tunables) {
    if (tunable.needs.empty()) continue;
    RIDGE_TRY(expression, Expression::parse(tunable.needs, space.declared_));
    space.needs_[tunable.name] = expression;
  }
  return space;
}

const record::Tunable* Space::find(std::string_view name) const {
  for (const record::Tunable& tunable : declared_.tunables) {
    if (tunable.name == name) return &tunable;
  }
  return nullptr;
}

Config Space::defaults() const {
  Config config;
  for (const record::Tunable& tunable : declared_.tunables) config[tunable.name] = tunable.default_value;
  return config;
}

Config Space::complete(const Config& changes) const {
  Config config = defaults();
  for (const auto& [name, value] : changes) {
    if (config.contains(name)) config[name] = value;
  }
  return canonical(std::move(config));
}

bool Space::active(const record::Tunable& tunable, const Config& config) const {
  const auto found = needs_.find(tunable.name);
  return found == needs_.end() || found->second->holds(config);
}

Config Space::canonical(Config config) const {
  // Each pass may switch off what another tunable needs; there are at most as many passes as tunables.
  for (std::size_t pass = 0; pass < declared_.tunables.size(); ++pass) {
    bool changed = false;
    for (const record::Tunable& tunable : declared_.tunables) {
      std::int64_t& value = config[tunable.name];
      if (value != tunable.default_value && !active(tunable, config)) {
        value = tunable.default_value;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return config;
}

Status Space::check(const Config& config) const {
  for (const auto& [name, value] : config) {
    const record::Tunable* tunable = find(name);
    if (tunable == nullptr) return invalid("{} is not a tunable of this source", name);
    if (std::ranges::find(tunable->values, value) == tunable->values.end()) {
      return invalid("{}={} is not one of its declared values {}", name, value, fmt::join(tunable->values, ", "));
    }
  }
  const Config whole = complete(config);
  for (std::size_t i = 0; i < constraints_.size(); ++i) {
    if (constraints_[i]->holds(whole)) continue;
    const record::Constraint& constraint = declared_.constraints[i];
    return invalid("{} violates \"{}\": {}", constraints_[i]->values(whole), constraint.expression, constraint.reason);
  }
  return ok_status();
}

bool Space::valid(const Config& config) const {
  return std::ranges::all_of(constraints_, [&](const auto& constraint) { return constraint->holds(config); });
}

std::uint64_t Space::count() const {
  // Union of the tunables that share a constraint.
  std::map<std::string, std::string> root;
  for (const record::Tunable& tunable : declared_.tunables) root[tunable.name] = tunable.name;
  const auto find_root = [&](std::string name) {
    while (root[name] != name) name = root[name];
    return name;
  };
  for (const auto& constraint : constraints_) {
    for (const std::string& name : constraint->names()) root[find_root(name)] = find_root(constraint->names()[0]);
  }
  std::map<std::string, std::vector<const record::Tunable*>> parts;
  for (const record::Tunable& tunable : declared_.tunables) parts[find_root(tunable.name)].push_back(&tunable);

  std::uint64_t total = 1;
  for (const auto& [name, members] : parts) {
    const auto& tunables = members;  // clang 14 cannot capture a structured binding
    std::vector<Expression*> mine;
    for (const auto& constraint : constraints_) {
      if (!constraint->names().empty() && find_root(constraint->names()[0]) == name) mine.push_back(constraint.get());
    }
    Config config = defaults();
    std::uint64_t valid_here = 0;
    const auto visit = [&](const auto& self, std::size_t depth) -> void {
      if (depth == tunables.size()) {
        valid_here += std::ranges::all_of(mine, [&](Expression* e) { return e->holds(config); }) ? 1 : 0;
        return;
      }
      for (const std::int64_t value : tunables[depth]->values) {
        config[tunables[depth]->name] = value;
        self(self, depth + 1);
      }
    };
    visit(visit, 0);
    total *= valid_here;
  }
  return total;
}

std::vector<Config> Space::vary(const Config& base, const std::vector<std::string>& names, std::size_t limit) const {
  std::vector<Config> found;
  std::set<Config> seen;
  Config config = base;
  const auto visit = [&](const auto& self, std::size_t depth) -> void {
    if (found.size() >= limit) return;
    if (depth == names.size()) {
      Config whole = canonical(config);
      if (valid(whole) && seen.insert(whole).second) found.push_back(std::move(whole));
      return;
    }
    for (const std::int64_t value : find(names[depth])->values) {
      config[names[depth]] = value;
      self(self, depth + 1);
    }
  };
  visit(visit, 0);
  return found;
}

std::vector<Config> Space::neighbours(const Config& config) const {
  const Config centre = canonical(config);
  std::set<Config> found;
  for (const record::Tunable& tunable : declared_.tunables) {
    if (!active(tunable, centre)) continue;
    for (const Config& other : vary(centre, {tunable.name})) {
      if (other != centre) found.insert(other);
    }
  }
  return {found.begin(), found.end()};
}

Config Space::sample(const Config& base, const std::vector<std::string>& names, Random& random) const {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    Config config = base;
    for (const std::string& name : names) {
      const std::vector<std::int64_t>& values = find(name)->values;
      config[name] = values[random.below(values.size())];
    }
    config = canonical(std::move(config));
    if (valid(config)) return config;
  }
  return base;
}

Config difference(const Config& from, const Config& to) {
  Config changed;
  for (const auto& [name, value] : to) {
    const auto before = from.find(name);
    if (before == from.end() || before->second != value) changed[name] = value;
  }
  return changed;
}

std::string to_text(const Config& config) {
  std::string text;
  for (const auto& [name, value] : config) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

}  // namespace ridge::propose
