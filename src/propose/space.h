// The configurations a source declares: which values are valid together, how many there are, what lies next to one.
//
// Constraints and `needs` are expressions over the tunables' names in muparser's syntax: + - * / % ^, comparisons,
// && || !, ?:, min, max. A tunable whose `needs` does not hold has no effect; in canonical form it has its default, so
// that two configurations that build the same code are equal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "ridge/result.h"

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

  // Valid configurations. Tunables that no constraint connects are counted apart and multiplied.
  [[nodiscard]] std::uint64_t count() const;
  // Valid, canonical, each once: `base` with the named tunables taking all their values, at most `limit` of them.
  [[nodiscard]] std::vector<Config> vary(const Config& base, const std::vector<std::string>& names,
                                         std::size_t limit = 100'000) const;
  // Valid, canonical, each once: everything that differs from `config` in one active tunable.
  [[nodiscard]] std::vector<Config> neighbours(const Config& config) const;
  // `base` with the named tunables drawn at random until valid; canonical. `base` itself when none is found.
  [[nodiscard]] Config sample(const Config& base, const std::vector<std::string>& names, Random& random) const;

 private:
  class Expression;
  explicit Space(record::TuneSpace declared) : declared_(std::move(declared)) {}

  record::TuneSpace declared_;
  std::vector<std::shared_ptr<Expression>> constraints_;      // as declared
  std::map<std::string, std::shared_ptr<Expression>> needs_;  // by tunable
};

// What differs from `from`, with the new values.
Config difference(const Config& from, const Config& to);
// "MR=6 NV=4"
std::string to_text(const Config& config);

}  // namespace ridge::propose
