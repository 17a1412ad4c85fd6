// What a model sees of a configuration: of every parameter where its value lies, and what hardware looks at besides,
// each as one of a few levels, so that a kernel over configurations is a product of table entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/space.h"

namespace ridge::search {

struct Feature {
  std::string name;
  std::vector<float> levels;  // the coordinate of each level, from 0 to 1
  bool is_word = false;       // all levels are equally far from each other
  bool derived = false;       // of several parameters, or of divisibility
};

class Encoding {
 public:
  explicit Encoding(const Space& space);
  [[nodiscard]] const std::vector<Feature>& features() const { return features_; }
  // The level of every feature.
  [[nodiscard]] std::vector<std::uint8_t> encode(const Point& point) const;

 private:
  void add_parameter(std::size_t parameter, const record::SearchParameter& declared);
  void add_products();

  struct Product {
    std::vector<std::size_t> factors;
    double low = 0, high = 0;
  };
  std::vector<Feature> features_;
  std::vector<std::size_t> parameter_of_;            // of the features that are no products
  std::vector<std::vector<std::uint8_t>> level_of_;  // of the same: by position of the value
  std::vector<Product> products_;
  std::vector<std::vector<double>> log_value_;  // by parameter, by position; empty where it has none
};

}  // namespace ridge::search
