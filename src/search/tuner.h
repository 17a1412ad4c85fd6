// The search for the fastest configuration with few measurements: a Gaussian process on the logarithm of the time, a
// local arm around the best ones, neighbours drawn without the model, and a bandit that shares the measurements between
// the three by what they gained.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "search/encoding.h"
#include "search/past.h"
#include "search/strategy.h"
#include "search/surrogate.h"

namespace ridge::search {

// What is expected of configurations before anything is measured: what was measured elsewhere, or a cost model.
struct Prior {
  // The logarithm of the time beyond that of the fastest one, as shown_beyond() shows it.
  std::function<double(const Point&)> value;
  std::function<bool(const Point&)> fails;  // empty: it says nothing of failures
  double weight = 1;                        // before data says otherwise; 0: it has to be earned
};
// Of sources of measurements, which outlive them: those of the same kernel share a weight of one, others have none.
std::vector<Prior> priors_of(const Space& space, std::span<const PastSource> past);

class Tuner : public Strategy {
 public:
  // `among`: only these configurations are proposed, in any order; empty: all of the space.
  Tuner(const Space& space, std::uint64_t seed, std::vector<Prior> priors, std::vector<std::uint64_t> among = {});
  std::optional<std::uint64_t> propose() override;
  // Also of a configuration that was not proposed here.
  void observe(std::uint64_t configuration, std::optional<double> seconds) override;

  // What is expected of one that may be proposed: the logarithm of its time, and how far off that may be. Nothing
  // before there is a model, and of one that the model is not asked about.
  struct Outlook {
    double mean = 0, deviation = 0;
  };
  [[nodiscard]] std::optional<Outlook> outlook(std::uint64_t configuration);
  // As if it had been measured and had come to what is expected, so that the next proposal is another one: for several
  // that are built and measured together.
  void suppose(std::uint64_t configuration);

 private:
  enum Arm : std::size_t { kImprovement, kNeighbour, kAround, kArms };
  struct Measured {
    std::uint64_t configuration;
    double value;  // the logarithm of the time
  };

  [[nodiscard]] static Trust trust_of(const std::vector<Prior>& priors);
  [[nodiscard]] Expectation expected_of(const Point& point) const;
  [[nodiscard]] double promise_of(const Expectation& expected) const;
  [[nodiscard]] std::optional<std::uint64_t> promised();
  [[nodiscard]] std::optional<std::uint64_t> first_design();
  [[nodiscard]] std::uint64_t draw();
  [[nodiscard]] bool is_open(std::uint64_t configuration) const;  // may be proposed, and was not
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
  std::vector<Prior> priors_;
  bool guided_;  // some are believed before data
  bool few_;     // configurations
  Surrogate surrogate_;
  Coin coin_;
  std::vector<std::uint64_t> pool_, next_pool_;
  std::vector<double> promise_;                           // of next_pool_
  std::unordered_map<std::uint64_t, std::size_t> place_;  // in the pool
  std::vector<std::uint64_t> among_;
  std::unordered_set<std::uint64_t> allowed_;  // the same; empty: all
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
