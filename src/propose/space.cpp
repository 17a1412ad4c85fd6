#include "propose/space.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace ridge::propose {

std::uint64_t Random::next() {  // splitmix64
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Space::Condition::Condition(const std::string& text)
    : names_(*record::expression_variables(text)),
      expression_(std::make_shared<record::OpenExpression>(text, record::Reals(), names_)) {}

bool Space::Condition::holds(const Config& config) const {
  std::vector<double> values;
  for (const std::string& name : names_) values.push_back(static_cast<double>(config.at(name)));
  const double value = expression_->at(values);
  return value != 0.0 && !std::isnan(value);
}

std::string Space::Condition::values(const Config& config) const {
  Config used;
  for (const std::string& name : names_) used[name] = config.at(name);
  return to_text(used);
}

namespace {

record::SearchParameter parameter_of(const record::Tunable& tunable) {
  record::SearchParameter parameter{tunable.name, {}, tunable.needs};
  for (const std::int64_t value : tunable.values) {
    if (value == tunable.default_value) parameter.fallback = parameter.values.size();
    parameter.values.push_back({static_cast<double>(value), {}});
  }
  return parameter;
}

}  // namespace

Result<Space> Space::create(record::TuneSpace declared) {
  Space space(std::move(declared));
  if (space.declared_.tunables.empty()) return space;
  record::SpaceDefinition definition;
  for (const record::Tunable& tunable : space.declared_.tunables)
    definition.parameters.push_back(parameter_of(tunable));
  for (const record::Constraint& one : space.declared_.constraints) definition.constraints.push_back(one.expression);
  RIDGE_TRY(points, search::Space::create(std::move(definition)));
  space.points_ = std::make_shared<const search::Space>(std::move(points));
  for (const record::Constraint& one : space.declared_.constraints) {
    space.constraints_.emplace_back(one.expression);
  }
  for (const record::Tunable& tunable : space.declared_.tunables) {
    if (!tunable.needs.empty()) space.needs_.emplace(tunable.name, Condition(tunable.needs));
  }
  return space;
}

std::optional<std::uint64_t> Space::number(const Config& config) const {
  if (!points_) return std::nullopt;
  search::Point point;
  for (const record::Tunable& tunable : declared_.tunables) {
    const auto found = std::ranges::find(tunable.values, config.at(tunable.name));
    if (found == tunable.values.end()) return std::nullopt;
    point.push_back(static_cast<std::uint16_t>(found - tunable.values.begin()));
  }
  return points_->rank(point);
}

Config Space::config(const search::Point& point) const {
  Config config;
  for (std::size_t i = 0; i < point.size(); ++i) {
    config[declared_.tunables[i].name] = declared_.tunables[i].values[point[i]];
  }
  return config;
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
  return found == needs_.end() || found->second.holds(config);
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
    if (constraints_[i].holds(whole)) continue;
    const record::Constraint& constraint = declared_.constraints[i];
    return invalid("{} violates \"{}\": {}", constraints_[i].values(whole), constraint.expression, constraint.reason);
  }
  return ok_status();
}

bool Space::valid(const Config& config) const {
  return std::ranges::all_of(constraints_, [&](const Condition& one) { return one.holds(config); });
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
  std::vector<Config> found;
  const Config centre = canonical(config);
  for (const record::Tunable& tunable : declared_.tunables) {
    if (!active(tunable, centre)) continue;
    for (Config& other : vary(centre, {tunable.name})) {
      if (other != centre) found.push_back(std::move(other));
    }
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
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
