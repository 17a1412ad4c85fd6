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

class Surrogate {
 public:
  explicit Surrogate(const Encoding& encoding);

  // The configurations that are asked about from the next model on.
  void set_pool(const std::vector<std::vector<std::uint8_t>>& pool);
  // An observation with its value, or, where it failed, none.
  void add(const std::vector<std::uint8_t>& levels, bool failed);
  // The values of all observations that did not fail, in the order of add(): they may be transformed anew each time.
  // Makes mean() and deviation() current. Whether it is those of the pool set last from now on.
  bool update(std::span<const double> values);
  // Whether the next update() begins a fit, so that a new pool costs nothing more.
  [[nodiscard]] bool fit_is_due() const;

  [[nodiscard]] std::span<const float> mean() const { return mean_; }
  [[nodiscard]] std::span<const float> deviation() const { return deviation_; }
  // How likely each of the pool is to fail, by the failures near it.
  [[nodiscard]] std::span<const float> failure() const { return failure_; }

 private:
  struct Observation {
    std::vector<std::uint8_t> levels;
    bool failed;
  };
  struct Pool {
    std::size_t size = 0;
    std::vector<std::uint8_t> codes;  // feature by feature, the levels
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

  const Encoding& encoding_;
  std::shared_ptr<const Pool> pool_;
  std::vector<Observation> observations_;
  std::size_t fitted_at_ = 0;
  Model model_;
  std::optional<ScaleFit> fit_;
  std::optional<Model> next_;
  std::vector<float> mean_, deviation_, failure_;
};

}  // namespace ridge::search
