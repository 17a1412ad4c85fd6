// A Gaussian process over configurations: what a value is expected to be, and how sure that is, for a whole pool of
// configurations at once. Observations are added one by one at the cost of one pass over the pool. When they have grown
// by a share the length scales are fitted again and the pool is gone through anew, in pieces of bounded work: until
// that is done the old model answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/encoding.h"
#include "search/kernel.h"

namespace ridge::search {

// What is expected of a configuration before it is measured, by each source of the past.
struct Expectation {
  std::vector<double> values;
  double failing = 0;  // share of the sources that it failed for
};

// How much sources are believed before data says so: the expected weight of each in a sum, and how far it may be off.
struct Trust {
  std::vector<double> weight;
  double variance = 0.25;  // of a weight
  double deviation = 0;    // of a value from what is expected of it
};

class Surrogate {
 public:
  Surrogate(const Encoding& encoding, Trust trust);

  // The configurations that are asked about from the next model on.
  void set_pool(const std::vector<std::vector<std::uint8_t>>& pool, const std::vector<Expectation>& expected);
  // An observation; its value comes with update() unless it failed.
  void add(const std::vector<std::uint8_t>& levels, Expectation expected, bool failed);
  // The values of all observations that did not fail, in the order of add(): they may be transformed anew each time.
  // Makes mean() and deviation() current. Whether it is those of the pool set last from now on.
  bool update(std::span<const double> values);
  // Whether a fit or a pool is due or under way: more updates change more.
  [[nodiscard]] bool is_behind() const { return fit_ || next_ || model_.pool != pool_ || fit_is_due(); }
  // Whether the next update() begins a fit, so that a new pool costs nothing more.
  [[nodiscard]] bool fit_is_due() const;

  [[nodiscard]] std::span<const float> mean() const { return mean_; }
  [[nodiscard]] std::span<const float> deviation() const { return deviation_; }
  // How likely each of the pool is to fail, by the failures near it.
  [[nodiscard]] std::span<const float> failure() const { return failure_; }
  // By source: how much it counts by now.
  [[nodiscard]] const std::vector<double>& weights() const { return weights_; }

 private:
  struct Observation {
    std::vector<std::uint8_t> levels;
    std::vector<double> expected;
    bool failed;
  };
  struct Pool {
    std::size_t size = 0;
    std::vector<std::uint8_t> codes;           // feature by feature, the levels
    std::vector<std::vector<float>> expected;  // by source
    std::vector<float> failing;
  };
  // A kernel, and what it makes of a pool and the first `appended` observations.
  struct Model {
    Model(Kernel with, std::shared_ptr<const Pool> over);
    void append(std::span<const Observation> observations);  // the next one
    [[nodiscard]] double work() const;                       // of append()

    Kernel kernel;
    std::shared_ptr<const Pool> pool;
    std::size_t appended = 0;
    std::vector<std::size_t> good;             // those that did not fail
    std::vector<std::vector<double>> factor;   // the lower Cholesky factor, row by row
    std::vector<std::vector<float>> whitened;  // its inverse times the kernel between observations and pool
    std::vector<float> left;                   // by pool: what is left of the variance 1
    std::vector<float> near_failed, near;      // by pool: sums of the kernel over failures, and over all
  };

  void begin_fit(std::span<const double> values);
  bool advance();  // the fit and the next model; whether that took the place of the present one
  void answer(std::span<const double> values);
  double weigh(const std::vector<std::vector<double>>& columns, const std::vector<double>& y);  // the variance

  const Encoding& encoding_;
  Trust trust_;
  double level_ = 0;             // of all values
  std::vector<double> weights_;  // of the sources
  std::shared_ptr<const Pool> pool_;
  std::vector<Observation> observations_;
  std::size_t fitted_at_ = 0;
  Model model_;
  std::optional<ScaleFit> fit_;
  std::optional<Model> next_;
  std::vector<float> mean_, deviation_, failure_;
};

}  // namespace ridge::search
