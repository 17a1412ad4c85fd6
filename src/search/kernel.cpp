#include "search/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace ridge::search {
namespace {

// Coordinates run from 0 to 1, so the last one switches a feature off.
constexpr std::array<double, 8> kScales = {0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 50.0};
constexpr std::array<double, 4> kNoises = {1e-4, 1e-3, 1e-2, 1e-1};
constexpr std::size_t kFirstScale = 3, kOff = kScales.size() - 1;
constexpr std::size_t kSweeps = 2;

double matern(double distance, double scale) {
  const double r = std::sqrt(5.0) * distance / scale;
  return (1 + r + r * r / 3) * std::exp(-r);
}

double distance(const Feature& feature, std::size_t a, std::size_t b) {
  if (feature.is_word) return a == b ? 0 : 1;
  return std::abs(static_cast<double>(feature.levels[a]) - static_cast<double>(feature.levels[b]));
}

// What is believed before any data, in units of log likelihood: derived features matter seldom, and nothing jumps
// from each value to the next.
double penalty(const Feature& feature, std::size_t scale) {
  constexpr double kDerived = 0.35, kParameter = 0.25;
  const auto place = static_cast<double>(scale);
  if (feature.derived) return kDerived * (static_cast<double>(kOff) - place);
  return kParameter * (place - 4) * (place - 4);
}

}  // namespace

Scales first_scales(const Encoding& encoding) {
  Scales scales;
  for (const Feature& feature : encoding.features()) scales.place.push_back(feature.derived ? kOff : kFirstScale);
  return scales;
}

Kernel::Kernel(const Encoding& encoding, Scales scales) : scales_(std::move(scales)) {
  for (std::size_t f = 0; f < scales_.place.size(); ++f) {
    if (scales_.place[f] == kOff) continue;
    const Feature& feature = encoding.features()[f];
    const std::size_t levels = feature.levels.size();
    Table table{f, levels, std::vector<float>(levels * levels)};
    for (std::size_t a = 0; a < levels; ++a) {
      for (std::size_t b = 0; b < levels; ++b) {
        table.values[a * levels + b] = static_cast<float>(matern(distance(feature, a, b), kScales[scales_.place[f]]));
      }
    }
    tables_.push_back(std::move(table));
  }
}

double Kernel::between(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) const {
  double product = 1;
  for (const Table& table : tables_) {
    product *= static_cast<double>(table.values[a[table.feature] * table.levels + b[table.feature]]);
  }
  return product;
}

void Kernel::row(const std::vector<std::uint8_t>& one, const std::vector<std::uint8_t>& codes,
                 std::span<float> row) const {
  std::ranges::fill(row, 1.0F);
  for (const Table& table : tables_) {
    const float* const values = &table.values[one[table.feature] * table.levels];
    const std::uint8_t* const code = &codes[table.feature * row.size()];
    for (std::size_t c = 0; c < row.size(); ++c) row[c] *= values[code[c]];
  }
}

ScaleFit::ScaleFit(const Encoding& encoding, Scales start, std::vector<std::vector<std::uint8_t>> levels,
                   std::vector<double> values)
    : encoding_(encoding), scales_(std::move(start)), levels_(std::move(levels)), values_(std::move(values)) {}

// The part of one feature at one scale in the logarithm of the kernel.
void ScaleFit::add_part(std::size_t feature, std::size_t place, float sign, std::vector<float>& sum) const {
  const Feature& one = encoding_.features()[feature];
  const std::size_t count = one.levels.size(), n = values_.size();
  std::vector<float> logs(count * count);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const double part = std::log(std::max(matern(distance(one, a, b), kScales[place]), 1e-30));
      logs[a * count + b] = logs[b * count + a] = sign * static_cast<float>(part);
    }
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float* const row = &logs[levels_[i][feature] * count];
    for (std::size_t j = i; j < n; ++j) sum[at++] += row[levels_[j][feature]];
  }
}

// The negative log likelihood of the values, scaled and shifted as fits best. Infinite where the kernel is not positive
// definite. Column by column, so that the inner loop adds whole columns.
double ScaleFit::misfit(const std::vector<float>& logs, double noise) {
  const std::size_t n = values_.size();
  factor_.resize(logs.size());
  for (std::size_t i = 0; i < logs.size(); ++i) factor_[i] = static_cast<double>(std::exp(logs[i]));
  y_ = values_;
  one_.assign(n, 1.0);
  double log_determinant = 0, yy = 0, y1 = 0, o1 = 0;
  double* column = factor_.data();
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t below = n - k;
    const double pivot = column[0] + noise;
    if (!(pivot > 0)) return std::numeric_limits<double>::infinity();
    const double root = std::sqrt(pivot);
    log_determinant += std::log(pivot);
    const double y = y_[k] / root, one = one_[k] / root;
    for (std::size_t i = 1; i < below; ++i) {
      column[i] /= root;
      y_[k + i] -= y * column[i];
      one_[k + i] -= one * column[i];
    }
    yy += y * y;
    y1 += y * one;
    o1 += one * one;
    double* other = column + below;
    for (std::size_t j = 1; j < below; ++j) {
      const double weight = column[j];
      const double* const from = column + j;
      for (std::size_t i = 0; i + j < below; ++i) other[i] -= weight * from[i];
      other += below - j;
    }
    column += below;
  }
  const auto count = static_cast<double>(n);
  const double variance = std::max((yy - y1 * y1 / o1) / count, 1e-12);
  return 0.5 * (count * std::log(variance) + log_determinant);
}

double ScaleFit::work_of_one() const {
  constexpr double kOfElement = 20;  // its exponential and the sums over features
  const auto n = static_cast<double>(values_.size());
  return n * n * n / 6 + kOfElement * n * n / 2;
}

void ScaleFit::try_feature(std::size_t feature, double& work) {
  const Feature& one = encoding_.features()[feature];
  const std::size_t now = scales_.place[feature];
  std::vector<float> without = total_;
  add_part(feature, now, -1, without);
  for (const int step : {-1, 1}) {
    if ((step < 0 && now == 0) || (step > 0 && now == kOff)) continue;
    const std::size_t trial = step < 0 ? now - 1 : now + 1;
    std::vector<float> logs = without;
    add_part(feature, trial, 1, logs);
    const double change = penalty(one, trial) - penalty(one, now);
    const double cost = misfit(logs, scales_.noise) + prior_ + change;
    work -= work_of_one();
    if (cost + 1e-9 >= best_) continue;
    best_ = cost;
    prior_ += change;
    scales_.place[feature] = trial;
    total_ = std::move(logs);
    return;
  }
}

void ScaleFit::try_noises(double& work) {
  for (const double noise : kNoises) {
    const double cost = misfit(total_, noise) + prior_;
    work -= work_of_one();
    if (cost + 1e-9 >= best_) continue;
    best_ = cost;
    scales_.noise = noise;
  }
}

bool ScaleFit::advance(double& work) {
  const std::size_t features = scales_.place.size(), n = values_.size();
  if (!begun_) {
    begun_ = true;
    total_.assign(n * (n + 1) / 2, 0.0F);
    for (std::size_t f = 0; f < features; ++f) {
      add_part(f, scales_.place[f], 1, total_);
      prior_ += penalty(encoding_.features()[f], scales_.place[f]);
    }
    best_ = misfit(total_, scales_.noise) + prior_;
  }
  for (; step_ < kSweeps * (features + 1); ++step_) {
    if (work <= 0) return false;
    const std::size_t feature = step_ % (features + 1);
    feature < features ? try_feature(feature, work) : try_noises(work);
  }
  return true;
}

}  // namespace ridge::search
