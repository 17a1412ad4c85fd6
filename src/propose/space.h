// The configurations a source declares: which values are valid together, how many there are, what lies next to one.
//
// Constraints and `needs` are expressions over the tunables' names (record/expression.h). A tunable whose `needs` does
// not hold has no effect; in canonical form it has its default, so that two configurations that build the same code are
// equal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "record/expression.h"
#include "ridge/result.h"
#include "search/space.h"

namespace ridge::propose {

// Every declared tunable with its value.
using Config = std::map<std::string, std::int64_t>;

// Uniform integers that are the same on every machine (the standard distributions are not).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }

 private:
  std::uint64_t state_;
};

class Space {
 public:
  // An error names the expression that cannot be read, or the name in it that is not a tunable.
  static Result<Space> create(record::TuneSpace declared);

  [[nodiscard]] const record::TuneSpace& declared() const { return declared_; }
  [[nodiscard]] const record::Tunable* find(std::string_view name) const;

  [[nodiscard]] Config defaults() const;
  // The defaults with `changes` on top, in canonical form.
  [[nodiscard]] Config complete(const Config& changes) const;
  [[nodiscard]] Config canonical(Config config) const;

  // Unknown name, value that is not declared, or the violated constraint with its values and reason.
  [[nodiscard]] Status check(const Config& config) const;
  [[nodiscard]] bool valid(const Config& config) const;
  // Whether the tunable's `needs` holds.
  [[nodiscard]] bool active(const record::Tunable& tunable, const Config& config) const;

  // Valid configurations in canonical form, as they are counted and numbered (search/space.h).
  [[nodiscard]] std::uint64_t count() const { return points_ ? points_->count() : 1; }
  // Of a source with tunables.
  [[nodiscard]] const search::Space& points() const { return *points_; }
  // Its number among them; nothing when it is not valid and canonical.
  [[nodiscard]] std::optional<std::uint64_t> number(const Config& config) const;
  [[nodiscard]] Config config(std::uint64_t number) const { return config(points().point(number)); }
  [[nodiscard]] Config config(const search::Point& point) const;
  // Valid, canonical, each once: `base` with the named tunables taking all their values, at most `limit` of them.
  [[nodiscard]] std::vector<Config> vary(const Config& base, const std::vector<std::string>& names,
                                         std::size_t limit = 100'000) const;
  // Valid, canonical, each once: everything that differs from `config` in one active tunable.
  [[nodiscard]] std::vector<Config> neighbours(const Config& config) const;

 private:
  // One expression over the values of tunables.
  class Condition {
   public:
    // Of a text that can be read.
    explicit Condition(const std::string& text);
    [[nodiscard]] bool holds(const Config& config) const;
    [[nodiscard]] std::string values(const Config& config) const;  // "MR=14 NR=4": those it looks at

   private:
    std::vector<std::string> names_;
    std::shared_ptr<record::OpenExpression> expression_;
  };
  explicit Space(record::TuneSpace declared) : declared_(std::move(declared)) {}

  record::TuneSpace declared_;
  std::vector<Condition> constraints_;           // as declared
  std::map<std::string, Condition> needs_;       // by tunable
  std::shared_ptr<const search::Space> points_;  // none: no tunables
};

// What differs from `from`, with the new values.
Config difference(const Config& from, const Config& to);
// "MR=6 NV=4"
std::string to_text(const Config& config);

}  // namespace ridge::propose
