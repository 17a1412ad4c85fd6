// A Gaussian process over configurations: what a value is expected to be, and how sure that is, for a whole pool of
// configurations at once. Observations are added one by one at the cost of one pass over the pool; the length scales
// are fitted again when the observations have grown by a share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/encoding.h"

namespace ridge::search {

class Surrogate {
 public:
  explicit Surrogate(const Encoding& encoding);

  // The configurations that are asked about; what was observed stays.
  void set_pool(const std::vector<std::vector<std::uint8_t>>& pool);
  // An observation with its value, or, where it failed, none.
  void add(const std::vector<std::uint8_t>& levels, bool failed);
  // The values of all observations that did not fail, in the order of add(): they may be transformed anew each time.
  // Fits length scales when due, and makes mean() and deviation() current.
  void update(std::span<const double> values);

  // Whether the next update() fits, so that a new pool costs nothing more.
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
  // Lower triangles, row after row.
  using Triangle = std::vector<float>;

  void make_table(std::size_t feature);
  void kernel_row(const std::vector<std::uint8_t>& levels, std::vector<float>& row) const;
  bool fit(std::span<const double> values);  // whether a length scale or the noise changed
  void rebuild();
  void append(const Observation& one);

  const Encoding& encoding_;
  std::size_t size_ = 0;                   // of the pool
  std::vector<std::uint8_t> codes_;        // feature by feature, the levels of the pool
  std::vector<std::size_t> scale_;         // by feature: which length scale
  std::vector<std::vector<float>> table_;  // by feature: the kernel between two levels
  double noise_ = 1e-2;                    // as a share of the variance
  std::vector<Observation> observations_;
  std::size_t appended_ = 0, fitted_at_ = 0;  // of them: in the factor; there at the last fit
  std::vector<std::size_t> good_;             // those in the factor that did not fail
  std::vector<std::vector<double>> factor_;   // the lower Cholesky factor, row by row
  std::vector<std::vector<float>> whitened_;  // its inverse times the kernel between observations and pool
  std::vector<float> left_;                   // by pool: what is left of the variance 1
  std::vector<float> near_failed_, near_;     // by pool: sums of the kernel over failures, and over all
  std::vector<float> mean_, deviation_, failure_;
};

}  // namespace ridge::search
