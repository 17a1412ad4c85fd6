// The configurations that constraints allow, without a list of them: a decision diagram whose nodes are what the
// constraints still have to know of the parameters before. It counts, numbers, draws and walks spaces of 10^12 as it
// does small ones; what it costs is the number of nodes, not of configurations.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/coin.h"
#include "record/search_space.h"
#include "ridge/result.h"
#include "search/constraint.h"

namespace ridge::search {

class Space {
 public:
  // An error names a parameter or value that is there twice, an expression that cannot be read, the constraints that
  // exclude every configuration (no fewer of them do) with their values, or the constraint whose diagram is too large.
  static Result<Space> create(record::SpaceDefinition definition);
  // Exactly these configurations, each once: a space that was recorded. An error names one that is there twice.
  static Result<Space> of_points(std::vector<record::SearchParameter> parameters, const std::vector<Point>& points);

  [[nodiscard]] const std::vector<record::SearchParameter>& parameters() const { return definition_.parameters; }
  [[nodiscard]] std::uint64_t count() const { return count_[root_]; }
  // How many there would be without constraints; a double, for it may be beyond 2^64.
  [[nodiscard]] double unconstrained() const;
  [[nodiscard]] std::size_t nodes() const { return count_.size(); }

  // The configuration of that number, below count().
  [[nodiscard]] Point point(std::uint64_t rank) const;
  // Its number; nothing when it is not allowed.
  [[nodiscard]] std::optional<std::uint64_t> rank(const Point& point) const;
  // Uniform over all that are allowed.
  [[nodiscard]] std::uint64_t sample(Coin& coin) const { return coin.below(count()); }
  // The numbers of all that differ from it in one parameter; what a conditional parameter is where it has no effect is
  // no difference.
  [[nodiscard]] std::vector<std::uint64_t> neighbours(const Point& point) const;

  // What forbids it, with the values; success when nothing does.
  [[nodiscard]] Status check(const Point& point) const;
  // "block=64 layout=nt"
  [[nodiscard]] std::string to_text(const Point& point) const;

 private:
  class Builder;
  struct Edge {
    std::uint64_t before;  // configurations below the edges to its left
    std::uint32_t child;
    std::uint16_t value;
  };
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kLeaf = 0;

  Space() = default;
  [[nodiscard]] std::uint32_t add_node(const std::vector<Edge>& edges);
  [[nodiscard]] const Edge* edge(std::uint32_t node, std::uint16_t value) const;
  void make_canonical(Point& point) const;

  record::SpaceDefinition definition_;
  std::vector<Constraint> constraints_;
  std::vector<std::uint16_t> order_;  // the parameter of every level
  std::vector<std::uint32_t> first_;  // by node: its first edge; one more at the end
  std::vector<Edge> edges_;
  std::vector<std::uint64_t> count_;  // by node
  std::uint32_t root_ = kLeaf;
};

}  // namespace ridge::search
