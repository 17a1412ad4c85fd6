#include "search/space.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "base/error.h"

namespace ridge::search {
namespace {

constexpr std::size_t kMostEdges = 8'000'000;  // 128 MB
constexpr std::size_t kMostValues = 65'535;
constexpr double kKeyBits = 63;

using Parameters = std::vector<record::SearchParameter>;

Status check_parameters(const Parameters& parameters) {
  if (parameters.empty()) return invalid("the space has no parameter");
  std::set<std::string> names;
  for (const auto& parameter : parameters) {
    const std::string& name = parameter.name;
    if (!names.insert(name).second) return invalid("parameter {} is declared twice", name);
    if (parameter.values.empty()) return invalid("parameter {} has no value", name);
    if (parameter.values.size() > kMostValues) {
      return invalid("parameter {} has {} values, more than {}", name, parameter.values.size(), kMostValues);
    }
    if (parameter.fallback >= parameter.values.size()) {
      return invalid("parameter {}: the value without effect is number {} of {}", name, parameter.fallback + 1,
                     parameter.values.size());
    }
    std::set<std::string> values;
    for (const auto& value : parameter.values) {
      if (!values.insert(to_text(value)).second) {
        return invalid("parameter {} has the value {} twice", name, to_text(value));
      }
    }
  }
  return ok_status();
}

// Where in the order the last parameter of a constraint stands, so that it can be decided there.
std::size_t closing_level(const Constraint& constraint, const std::vector<std::size_t>& level) {
  std::size_t last = 0;
  for (const std::uint16_t p : constraint.scope()) last = std::max(last, level[p]);
  return last;
}

std::string values_of(const record::SearchParameter& parameter) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> shown;
  for (const auto& value : std::span(parameter.values).first(std::min(kShown, parameter.values.size()))) {
    shown.push_back(to_text(value));
  }
  const std::size_t more = parameter.values.size() - shown.size();
  return fmt::format("{} in {}{}", parameter.name, fmt::join(shown, ", "),
                     more == 0 ? std::string() : fmt::format(" and {} more", more));
}

}  // namespace

// Makes the diagram of some constraints. A node is a level and the values of those earlier parameters that constraints
// still open there name: whatever else was chosen before, the same follows.
class Space::Builder {
 public:
  Builder(Space& space, std::vector<const Constraint*> constraints)
      : space_(space), constraints_(std::move(constraints)), chosen_(space.definition_.parameters.size(), 0) {}

  // False: more edges than allowed; widest() says why.
  bool build() {
    order();
    // Beyond that a state has no key of its own.
    too_large_ = std::ranges::any_of(open_, [&](const auto& open) { return states(open) > kKeyBits; });
    if (too_large_) return false;
    space_.count_ = {1};
    space_.first_ = {0, 0};
    space_.edges_.clear();
    seen_.assign(space_.order_.size(), {});
    space_.root_ = node(0);
    return !too_large_;
  }
  // Of the constraints that are open where the most has to be known, the one with the most parameters.
  [[nodiscard]] const Constraint* widest() const { return widest_; }
  [[nodiscard]] bool is_empty() const { return space_.root_ == kNone; }

 private:
  [[nodiscard]] const Parameters& parameters() const { return space_.definition_.parameters; }

  // The parameters among `placed` that a constraint names which is not yet decided.
  [[nodiscard]] std::vector<std::uint16_t> open_after(const std::vector<bool>& placed) const {
    std::vector<bool> open(placed.size(), false);
    for (const Constraint* const constraint : constraints_) {
      const auto& scope = constraint->scope();
      if (std::ranges::all_of(scope, [&](auto p) { return placed[p]; })) continue;
      for (const std::uint16_t p : scope) open[p] = open[p] || placed[p];
    }
    std::vector<std::uint16_t> list;
    for (std::uint16_t p = 0; p < open.size(); ++p) {
      if (open[p]) list.push_back(p);
    }
    return list;
  }
  // How many of them there may be; the logarithm to base 2.
  [[nodiscard]] double states(const std::vector<std::uint16_t>& open) const {
    double bits = 0;
    for (const std::uint16_t p : open) bits += std::log2(static_cast<double>(parameters()[p].values.size()));
    return bits;
  }

  // One parameter after the other, each time the one after which the least has to be remembered.
  void order() {
    const std::size_t count = parameters().size();
    std::vector<bool> placed(count, false);
    space_.order_.clear();
    open_ = {{}};
    double most = -1;
    while (space_.order_.size() < count) {
      std::uint16_t best = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint16_t p = 0; p < count; ++p) {
        if (placed[p]) continue;
        placed[p] = true;
        if (const double size = states(open_after(placed)); size < least) {
          least = size;
          best = p;
        }
        placed[p] = false;
      }
      placed[best] = true;
      space_.order_.push_back(best);
      open_.push_back(open_after(placed));
      if (least > most) {
        most = least;
        note_widest(placed);
      }
    }
    std::vector<std::size_t> level(count);
    for (std::size_t l = 0; l < count; ++l) level[space_.order_[l]] = l;
    closing_.assign(count, {});
    for (const Constraint* const one : constraints_) closing_[closing_level(*one, level)].push_back(one);
  }
  void note_widest(const std::vector<bool>& placed) {
    for (const Constraint* const one : constraints_) {
      const bool closed = std::ranges::all_of(one->scope(), [&](auto p) { return placed[p]; });
      if (!closed && (widest_ == nullptr || one->scope().size() > widest_->scope().size())) widest_ = one;
    }
  }

  [[nodiscard]] std::uint64_t key(std::size_t level) const {
    std::uint64_t packed = 0;
    for (const std::uint16_t p : open_[level]) packed = packed * parameters()[p].values.size() + chosen_[p];
    return packed;
  }

  std::uint32_t node(std::size_t level) {
    if (level == space_.order_.size()) return kLeaf;
    const std::uint64_t state = key(level);
    if (const auto found = seen_[level].find(state); found != seen_[level].end()) return found->second;
    if (too_large_) return kNone;
    const std::uint16_t p = space_.order_[level];
    std::vector<Edge> edges;
    for (std::uint16_t value = 0; value < parameters()[p].values.size(); ++value) {
      chosen_[p] = value;
      if (!std::ranges::all_of(closing_[level], [&](const Constraint* c) { return c->holds(chosen_); })) continue;
      const std::uint32_t child = node(level + 1);
      if (child != kNone) edges.push_back({0, child, value});
    }
    const std::uint32_t made = edges.empty() ? kNone : space_.add_node(edges);
    too_large_ = too_large_ || space_.edges_.size() > kMostEdges || made == kNone - 1;
    return seen_[level][state] = made;
  }

  Space& space_;
  std::vector<const Constraint*> constraints_;
  Point chosen_;
  std::vector<std::vector<std::uint16_t>> open_;                        // by level
  std::vector<std::vector<const Constraint*>> closing_;                 // by level
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> seen_;  // by level
  const Constraint* widest_ = nullptr;
  bool too_large_ = false;
};

std::uint32_t Space::add_node(const std::vector<Edge>& edges) {
  std::uint64_t below = 0;
  bool overflow = false;
  for (Edge edge : edges) {
    edge.before = below;
    overflow = __builtin_add_overflow(below, count_[edge.child], &below) || overflow;
    edges_.push_back(edge);
  }
  if (overflow) return kNone - 1;  // the caller refuses the space
  first_.push_back(static_cast<std::uint32_t>(edges_.size()));
  count_.push_back(below);
  return static_cast<std::uint32_t>(count_.size() - 1);
}

Result<Space> Space::create(record::SpaceDefinition definition) {
  RIDGE_CHECK_OK(check_parameters(definition.parameters));
  Space space;
  space.definition_ = std::move(definition);
  const Parameters& parameters = space.definition_.parameters;
  const auto words = word_numbers(parameters);
  for (const std::string& text : space.definition_.constraints) {
    RIDGE_TRY(constraint, Constraint::parse(text, parameters, words));
    space.constraints_.push_back(std::move(constraint));
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].needs.empty()) continue;
    RIDGE_TRY(constraint, Constraint::parse(parameters[p].needs, parameters, words, static_cast<int>(p)));
    space.constraints_.push_back(std::move(constraint));
  }
  std::vector<const Constraint*> all;
  for (const Constraint& one : space.constraints_) all.push_back(&one);
  Builder builder(space, all);
  if (!builder.build()) {
    const Constraint* const widest = builder.widest();
    return with_hint(
        make_error(ErrorCode::kUnsupported,
                   "the space is too large to count: constraint \"{}\" ties {} parameters whose values have "
                   "to be known together",
                   widest == nullptr ? "" : widest->text(), widest == nullptr ? 0 : widest->scope().size()),
        "split it, or give its parameters fewer values");
  }
  if (!builder.is_empty()) return space;
  // What is left when every constraint without which there is still nothing is taken away: they exclude each other.
  std::vector<const Constraint*> needed = all;
  for (const Constraint* const one : all) {
    std::vector<const Constraint*> fewer = needed;
    std::erase(fewer, one);
    Builder without(space, fewer);
    if (without.build() && without.is_empty()) needed = fewer;
  }
  std::vector<std::string> texts, values;
  std::set<std::uint16_t> named;
  for (const Constraint* const one : needed) {
    texts.push_back(fmt::format("\"{}\"", one->text()));
    named.insert(one->scope().begin(), one->scope().end());
  }
  for (const std::uint16_t p : named) values.push_back(values_of(parameters[p]));
  return with_hint(invalid("no configuration satisfies {}{}: {}", fmt::join(texts, " and "),
                           texts.size() > 1 ? " together" : "", fmt::join(values, "; ")),
                   "change one of them or the values");
}

Result<Space> Space::of_points(Parameters parameters, const std::vector<Point>& points) {
  RIDGE_CHECK_OK(check_parameters(parameters));
  Space space;
  space.definition_.parameters = std::move(parameters);
  const std::size_t depth = space.definition_.parameters.size();
  space.order_.resize(depth);
  std::iota(space.order_.begin(), space.order_.end(), std::uint16_t{0});
  space.count_ = {1};
  space.first_ = {0, 0};
  std::vector<const Point*> sorted;
  for (const Point& point : points) sorted.push_back(&point);
  std::ranges::sort(sorted, [](const Point* a, const Point* b) { return *a < *b; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (*sorted[i - 1] == *sorted[i]) return invalid("configuration {} is there twice", space.to_text(*sorted[i]));
  }
  if (sorted.empty()) return invalid("no configuration");
  // The node of the points [begin, end), which agree in the first `level` parameters.
  const auto node = [&](const auto& self, std::size_t level, std::size_t begin, std::size_t end) -> std::uint32_t {
    if (level == depth) return kLeaf;
    std::vector<Edge> edges;
    while (begin < end) {
      std::size_t next = begin;
      while (next < end && (*sorted[next])[level] == (*sorted[begin])[level]) ++next;
      edges.push_back({0, self(self, level + 1, begin, next), (*sorted[begin])[level]});
      begin = next;
    }
    return space.add_node(edges);
  };
  space.root_ = node(node, 0, 0, sorted.size());
  return space;
}

double Space::unconstrained() const {
  double product = 1;
  for (const auto& parameter : parameters()) product *= static_cast<double>(parameter.values.size());
  return product;
}

const Space::Edge* Space::edge(std::uint32_t node, std::uint16_t value) const {
  const auto edges = std::span(edges_).subspan(first_[node], first_[node + 1] - first_[node]);
  const auto found = std::ranges::lower_bound(edges, value, {}, &Edge::value);
  return found != edges.end() && found->value == value ? &*found : nullptr;
}

Point Space::point(std::uint64_t rank) const {
  Point point(order_.size());
  std::uint32_t node = root_;
  for (const std::uint16_t p : order_) {
    const auto edges = std::span(edges_).subspan(first_[node], first_[node + 1] - first_[node]);
    const Edge& taken = *(std::ranges::upper_bound(edges, rank, {}, &Edge::before) - 1);
    rank -= taken.before;
    point[p] = taken.value;
    node = taken.child;
  }
  return point;
}

std::optional<std::uint64_t> Space::rank(const Point& point) const {
  if (point.size() != order_.size()) return std::nullopt;
  std::uint64_t rank = 0;
  std::uint32_t node = root_;
  for (const std::uint16_t p : order_) {
    const Edge* const taken = edge(node, point[p]);
    if (taken == nullptr) return std::nullopt;
    rank += taken->before;
    node = taken->child;
  }
  return rank;
}

void Space::make_canonical(Point& point) const {
  // Each pass may switch off what another parameter needs; there are at most as many passes as parameters.
  bool changed = true;
  for (std::size_t pass = 0; changed && pass < point.size(); ++pass) {
    changed = false;
    for (const Constraint& one : constraints_) {
      if (one.conditional() < 0 || one.holds(point)) continue;
      const auto p = static_cast<std::size_t>(one.conditional());
      point[p] = static_cast<std::uint16_t>(parameters()[p].fallback);
      changed = true;
    }
  }
}

std::vector<std::uint64_t> Space::neighbours(const Point& point) const {
  std::vector<std::uint64_t> found;
  Point changed = point;
  for (std::size_t p = 0; p < point.size(); ++p) {
    for (std::uint16_t value = 0; value < parameters()[p].values.size(); ++value) {
      if (value == point[p]) continue;
      changed[p] = value;
      make_canonical(changed);
      if (changed != point) {
        if (const auto number = rank(changed)) found.push_back(*number);
      }
      changed = point;
    }
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

Status Space::check(const Point& point) const {
  if (point.size() != order_.size()) {
    return invalid("{} values for {} parameters", point.size(), order_.size());
  }
  for (std::size_t p = 0; p < point.size(); ++p) {
    if (point[p] >= parameters()[p].values.size()) {
      return invalid("{}: value number {} of {}", parameters()[p].name, point[p] + 1, parameters()[p].values.size());
    }
  }
  for (const Constraint& one : constraints_) {
    if (one.holds(point)) continue;
    std::vector<std::string> values;
    for (const std::uint16_t p : one.scope()) {
      values.push_back(fmt::format("{}={}", parameters()[p].name, record::to_text(parameters()[p].values[point[p]])));
    }
    return invalid("constraint \"{}\" does not hold for {}", one.text(), fmt::join(values, " "));
  }
  if (!rank(point)) return invalid("{} is none of the {} configurations", to_text(point), count());
  return ok_status();
}

std::string Space::to_text(const Point& point) const {
  std::vector<std::string> parts;
  for (std::size_t p = 0; p < point.size(); ++p) {
    parts.push_back(fmt::format("{}={}", parameters()[p].name, record::to_text(parameters()[p].values[point[p]])));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace ridge::search
