#include "search/encoding.h"

#include <algorithm>
#include <cmath>

namespace ridge::search {
namespace {

constexpr std::size_t kLevels = 64;       // of a product
constexpr std::size_t kMostLevels = 128;  // of a parameter: more values share them
constexpr std::size_t kMostProducts = 15;
constexpr double kRatioOfLogarithms = 4;  // values that span more are compared by ratio

bool is_number(const record::SearchParameter& parameter) {
  return std::ranges::all_of(parameter.values, [](const auto& v) { return v.word.empty(); });
}

// How often two divides it: vectors, banks and warps ask for multiples of powers of two.
double twos(double value) {
  if (value == 0 || value != std::floor(value) || std::abs(value) > 1e9) return 0;
  const auto whole = static_cast<std::int64_t>(std::abs(value));
  return std::min(__builtin_ctzll(static_cast<unsigned long long>(whole)), 10);
}

// The distinct coordinates, scaled to 0..1, and the level of each.
Feature feature_of(std::string name, const std::vector<double>& coordinates, std::vector<std::uint8_t>& level_of) {
  std::vector<double> distinct = coordinates;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  const double low = distinct.front(), span = std::max(distinct.back() - low, 1e-12);
  Feature feature{std::move(name), {}};
  const bool all = distinct.size() <= kMostLevels;
  const std::size_t levels = all ? distinct.size() : kMostLevels;
  for (std::size_t i = 0; i < levels; ++i) {
    feature.levels.push_back(static_cast<float>(all ? (distinct[i] - low) / span
                                                    : static_cast<double>(i) / static_cast<double>(levels - 1)));
  }
  for (const double x : coordinates) {
    const auto level = all ? static_cast<std::size_t>(std::ranges::lower_bound(distinct, x) - distinct.begin())
                           : static_cast<std::size_t>(std::lround((x - low) / span * static_cast<double>(levels - 1)));
    level_of.push_back(static_cast<std::uint8_t>(level));
  }
  return feature;
}

}  // namespace

Encoding::Encoding(const Space& space) : log_value_(space.parameters().size()) {
  for (std::size_t p = 0; p < space.parameters().size(); ++p) {
    if (space.parameters()[p].values.size() > 1) add_parameter(p, space.parameters()[p]);
  }
  add_products();
}

void Encoding::add_parameter(std::size_t parameter, const record::SearchParameter& declared) {
  std::vector<double> coordinates, powers;
  const bool number = is_number(declared);
  double low = 0, high = 0;
  for (std::size_t i = 0; i < declared.values.size(); ++i) {
    coordinates.push_back(number ? declared.values[i].number : static_cast<double>(i));
    powers.push_back(number ? twos(declared.values[i].number) : 0);
    low = i == 0 ? coordinates.back() : std::min(low, coordinates.back());
    high = i == 0 ? coordinates.back() : std::max(high, coordinates.back());
  }
  const bool ratios = number && low > 0 && high >= kRatioOfLogarithms * low;
  if (number && low > 0 && coordinates.size() > 2) {
    for (const double x : coordinates) log_value_[parameter].push_back(std::log2(x));
  }
  if (ratios) {
    for (double& x : coordinates) x = std::log2(x);
  }
  level_of_.emplace_back();
  features_.push_back(feature_of(declared.name, coordinates, level_of_.back()));
  features_.back().is_word = !number;
  parameter_of_.push_back(parameter);
  // Where the values are the powers of two themselves there is nothing more to see.
  const bool varied = std::ranges::max(powers) > std::ranges::min(powers);
  if (!number || !varied || coordinates.size() < 6 || (ratios && coordinates == powers)) return;
  level_of_.emplace_back();
  features_.push_back(feature_of(declared.name + " twos", powers, level_of_.back()));
  features_.back().derived = true;
  parameter_of_.push_back(parameter);
}

void Encoding::add_products() {
  std::vector<std::size_t> factors;
  for (std::size_t p = 0; p < log_value_.size(); ++p) {
    if (!log_value_[p].empty()) factors.push_back(p);
  }
  for (std::size_t a = 0; a < factors.size(); ++a) {
    for (std::size_t b = a + 1; b < factors.size() && products_.size() < kMostProducts; ++b) {
      products_.push_back({{factors[a], factors[b]}});
    }
  }
  if (factors.size() > 2) products_.push_back({factors});
  for (Product& product : products_) {
    Feature feature{"product", {}, false, true};
    for (const std::size_t p : product.factors) {
      product.low += std::ranges::min(log_value_[p]);
      product.high += std::ranges::max(log_value_[p]);
    }
    for (std::size_t i = 0; i < kLevels; ++i) {
      feature.levels.push_back(static_cast<float>(i) / static_cast<float>(kLevels - 1));
    }
    features_.push_back(std::move(feature));
  }
}

std::vector<std::uint8_t> Encoding::encode(const Point& point) const {
  std::vector<std::uint8_t> levels;
  levels.reserve(features_.size());
  for (std::size_t i = 0; i < parameter_of_.size(); ++i) levels.push_back(level_of_[i][point[parameter_of_[i]]]);
  for (const Product& product : products_) {
    double sum = 0;
    for (const std::size_t p : product.factors) sum += log_value_[p][point[p]];
    const double place = (sum - product.low) / std::max(product.high - product.low, 1e-12);
    levels.push_back(static_cast<std::uint8_t>(std::lround(place * static_cast<double>(kLevels - 1))));
  }
  return levels;
}

}  // namespace ridge::search
