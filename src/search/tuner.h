// The search for the fastest configuration with few measurements: a Gaussian process on the logarithm of the time, a
// local arm around the best ones, neighbours drawn without the model, and a bandit that shares the measurements between
// the three by what they gained.
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "search/encoding.h"
#include "search/past.h"
#include "search/strategy.h"
#include "search/surrogate.h"

namespace ridge::search {

class Tuner : public Strategy {
 public:
  // `past` outlives it.
  Tuner(const Space& space, std::uint64_t seed, std::span<const PastSource> past);
  std::optional<std::uint64_t> propose() override;
  void observe(std::uint64_t configuration, std::optional<double> seconds) override;

 private:
  enum Arm : std::size_t { kImprovement, kNeighbour, kAround, kArms };
  struct Measured {
    std::uint64_t configuration;
    double value;  // the logarithm of the time
  };

  [[nodiscard]] Trust trust_of(std::span<const PastSource> past);
  [[nodiscard]] Expectation expected_of(const Point& point) const;
  [[nodiscard]] double promise_of(const Expectation& expected) const;
  [[nodiscard]] std::optional<std::uint64_t> promised();
  [[nodiscard]] std::optional<std::uint64_t> first_design();
  [[nodiscard]] std::optional<std::uint64_t> unseen();
  [[nodiscard]] std::optional<std::uint64_t> draw_around();
  [[nodiscard]] double shown(double value) const;
  void choose_pool();
  void take_pool();  // that the model answers about from now on
  void update();
  [[nodiscard]] Arm choose_arm();
  [[nodiscard]] std::optional<std::size_t> best_of(Arm arm);
  [[nodiscard]] double merit(std::size_t candidate) const;

  const Space& space_;
  Encoding encoding_;
  std::vector<PastSource::View> past_;
  std::vector<double> believed_;  // by source of the past: its weight before data
  bool guided_ = false;           // some are of the same kernel
  Surrogate surrogate_;
  Coin coin_;
  std::vector<std::uint64_t> pool_, next_pool_;
  std::vector<double> promise_;                           // of next_pool_
  std::unordered_map<std::uint64_t, std::size_t> place_;  // in the pool
  bool pool_is_whole_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<std::vector<std::uint8_t>> design_;
  std::vector<Measured> measured_;  // those that did not fail
  std::optional<Measured> best_;
  std::vector<double> values_;  // what the model is shown
  std::array<double, kArms> gain_{}, uses_{};
  std::optional<Arm> arm_;
  double median_ = 0;  // of the values measured
};

}  // namespace ridge::search
