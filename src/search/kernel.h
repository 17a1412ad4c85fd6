// How alike two configurations are to the model: a product over features, each compared on one of a few length scales.
// And the fit of these scales by likelihood, in pieces of bounded work, so that no proposal waits for all of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/encoding.h"

namespace ridge::search {

// By feature: which length scale; and how much of the variance is noise.
struct Scales {
  std::vector<std::size_t> place;
  double noise = 1e-2;
  friend bool operator==(const Scales&, const Scales&) = default;
};
// What is believed before any data: every parameter matters a little, derived features do not.
Scales first_scales(const Encoding& encoding);

class Kernel {
 public:
  Kernel(const Encoding& encoding, Scales scales);
  [[nodiscard]] const Scales& scales() const { return scales_; }
  [[nodiscard]] double between(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) const;
  // Between one and `row.size()` others, whose levels lie feature by feature in `codes`.
  void row(const std::vector<std::uint8_t>& one, const std::vector<std::uint8_t>& codes, std::span<float> row) const;

 private:
  struct Table {
    std::size_t feature, levels;
    std::vector<float> values;  // between two levels
  };
  Scales scales_;
  std::vector<Table> tables_;  // of the features that are not off
};

class ScaleFit {
 public:
  // Begins at `start`, for these observations and their values.
  ScaleFit(const Encoding& encoding, Scales start, std::vector<std::vector<std::uint8_t>> levels,
           std::vector<double> values);
  // Goes on until it is done or `work` (multiplications, about) is spent. Whether it is done.
  bool advance(double& work);
  [[nodiscard]] const Scales& scales() const { return scales_; }

 private:
  void add_part(std::size_t feature, std::size_t place, float sign, std::vector<float>& sum) const;
  [[nodiscard]] double misfit(const std::vector<float>& logs, double noise);
  void try_feature(std::size_t feature, double& work);
  void try_noises(double& work);
  [[nodiscard]] double work_of_one() const;

  const Encoding& encoding_;
  Scales scales_;
  std::vector<std::vector<std::uint8_t>> levels_;
  std::vector<double> values_;
  std::vector<float> total_;              // the logarithm of the kernel, a triangle, column after column
  std::vector<double> factor_, y_, one_;  // scratch of misfit()
  double best_ = 0, prior_ = 0;
  std::size_t step_ = 0;  // of all features and the noise, twice
  bool begun_ = false;
};

}  // namespace ridge::search
