#include "search/surrogate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace ridge::search {
namespace {

// Coordinates run from 0 to 1, so the last one switches a feature off.
constexpr std::array<double, 8> kScales = {0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 50.0};
constexpr std::array<double, 4> kNoises = {1e-4, 1e-3, 1e-2, 1e-1};
constexpr std::size_t kFirstScale = 3, kFirstDerivedScale = 7;
constexpr std::size_t kFirstFit = 8;
constexpr double kGrowth = 1.3;          // of the observations between two fits
constexpr std::size_t kMostInFit = 160;  // the likelihood costs their third power
constexpr double kFailureWeight = 0.3;   // of the overall share of failures beside those near a configuration

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
  if (feature.derived) return kDerived * (static_cast<double>(kScales.size() - 1) - place);
  return kParameter * (place - 4) * (place - 4);
}

// The negative log likelihood of values under a kernel (a lower triangle), scaled and shifted as fits best. Infinite
// where the kernel is not positive definite.
double misfit(const std::vector<float>& kernel, std::span<const double> values, double noise, std::vector<double>& l) {
  const std::size_t n = values.size();
  l.resize(kernel.size());
  std::vector<double> y(n), one(n);
  double log_determinant = 0, yy = 0, y1 = 0, o1 = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = &l[i * (i + 1) / 2];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* const other = &l[j * (j + 1) / 2];
      double sum = static_cast<double>(kernel[i * (i + 1) / 2 + j]) + (i == j ? noise : 0);
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      if (i != j) {
        row[j] = sum / other[j];
      } else if (sum > 0) {
        row[i] = std::sqrt(sum);
      } else {
        return std::numeric_limits<double>::infinity();
      }
    }
    log_determinant += 2 * std::log(row[i]);
    y[i] = values[i];
    one[i] = 1;
    for (std::size_t k = 0; k < i; ++k) {
      y[i] -= row[k] * y[k];
      one[i] -= row[k] * one[k];
    }
    y[i] /= row[i];
    one[i] /= row[i];
    yy += y[i] * y[i];
    y1 += y[i] * one[i];
    o1 += one[i] * one[i];
  }
  const auto count = static_cast<double>(n);
  const double variance = std::max((yy - y1 * y1 / o1) / count, 1e-12);
  return 0.5 * (count * std::log(variance) + log_determinant);
}

}  // namespace

Surrogate::Surrogate(const Encoding& encoding) : encoding_(encoding) {
  for (std::size_t f = 0; f < encoding.features().size(); ++f) {
    scale_.push_back(encoding.features()[f].derived ? kFirstDerivedScale : kFirstScale);
    table_.emplace_back();
    make_table(f);
  }
}

void Surrogate::make_table(std::size_t feature) {
  const Feature& one = encoding_.features()[feature];
  const std::size_t levels = one.levels.size();
  table_[feature].resize(levels * levels);
  for (std::size_t a = 0; a < levels; ++a) {
    for (std::size_t b = 0; b < levels; ++b) {
      table_[feature][a * levels + b] = static_cast<float>(matern(distance(one, a, b), kScales[scale_[feature]]));
    }
  }
}

void Surrogate::set_pool(const std::vector<std::vector<std::uint8_t>>& pool) {
  size_ = pool.size();
  codes_.resize(size_ * table_.size());
  for (std::size_t c = 0; c < size_; ++c) {
    for (std::size_t f = 0; f < table_.size(); ++f) codes_[f * size_ + c] = pool[c][f];
  }
  rebuild();
}

void Surrogate::add(const std::vector<std::uint8_t>& levels, bool failed) { observations_.push_back({levels, failed}); }

bool Surrogate::fit_is_due() const {
  return observations_.size() >= kFirstFit &&
         static_cast<double>(observations_.size()) >= kGrowth * static_cast<double>(fitted_at_);
}

void Surrogate::kernel_row(const std::vector<std::uint8_t>& levels, std::vector<float>& row) const {
  row.assign(size_, 1.0F);
  for (std::size_t f = 0; f < table_.size(); ++f) {
    if (scale_[f] + 1 == kScales.size()) continue;
    const float* const table = &table_[f][levels[f] * encoding_.features()[f].levels.size()];
    const std::uint8_t* const code = &codes_[f * size_];
    for (std::size_t c = 0; c < size_; ++c) row[c] *= table[code[c]];
  }
}

void Surrogate::append(const Observation& one) {
  std::vector<float> row;
  kernel_row(one.levels, row);
  for (std::size_t c = 0; c < size_; ++c) near_[c] += row[c];
  if (one.failed) {
    for (std::size_t c = 0; c < size_; ++c) near_failed_[c] += row[c];
    return;
  }
  // One more row of the factor, and of its inverse times the kernel.
  std::vector<double> l;
  double rest = 1 + noise_;
  for (std::size_t i = 0; i < good_.size(); ++i) {
    const auto& other = observations_[good_[i]].levels;
    double sum = 1;
    for (std::size_t f = 0; f < table_.size(); ++f) {
      if (scale_[f] + 1 == kScales.size()) continue;
      sum *= static_cast<double>(table_[f][one.levels[f] * encoding_.features()[f].levels.size() + other[f]]);
    }
    for (std::size_t k = 0; k < i; ++k) sum -= l[k] * factor_[i][k];
    l.push_back(sum / factor_[i][i]);
    rest -= l.back() * l.back();
  }
  l.push_back(std::sqrt(std::max(rest, 1e-8)));
  for (std::size_t i = 0; i < good_.size(); ++i) {
    const auto weight = static_cast<float>(l[i]);
    const float* const other = whitened_[i].data();
    for (std::size_t c = 0; c < size_; ++c) row[c] -= weight * other[c];
  }
  const auto scale = static_cast<float>(1 / l.back());
  for (std::size_t c = 0; c < size_; ++c) {
    row[c] *= scale;
    left_[c] -= row[c] * row[c];
  }
  factor_.push_back(std::move(l));
  whitened_.push_back(std::move(row));
  good_.push_back(static_cast<std::size_t>(&one - observations_.data()));
}

void Surrogate::rebuild() {
  good_.clear();
  factor_.clear();
  whitened_.clear();
  left_.assign(size_, 1.0F);
  near_failed_.assign(size_, 0.0F);
  near_.assign(size_, 0.0F);
  for (std::size_t i = 0; i < appended_; ++i) append(observations_[i]);
}

bool Surrogate::fit(std::span<const double> values) {
  // The best ones, and as many of the others: what matters is how the good region looks.
  std::vector<std::size_t> good, chosen(values.size());
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    if (!observations_[i].failed) good.push_back(i);
  }
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (chosen.size() > kMostInFit) {
    std::ranges::sort(chosen, {}, [&](std::size_t i) { return values[i]; });
    for (std::size_t i = 0; i < kMostInFit / 2; ++i) {
      const std::size_t others = chosen.size() - kMostInFit / 2;
      chosen[kMostInFit / 2 + i] = chosen[kMostInFit / 2 + i * others / (kMostInFit / 2)];
    }
    chosen.resize(kMostInFit);
  }
  const std::size_t n = chosen.size();
  if (n < kFirstFit) return false;
  const auto before = std::pair(scale_, noise_);
  std::vector<double> y;
  for (const std::size_t i : chosen) y.push_back(values[i]);
  const std::size_t features = table_.size();
  // The logarithm of the kernel, as a sum over features; `part` is that of one feature at one scale.
  const auto part = [&](std::size_t f, std::size_t scale, std::vector<float>& sum, float sign) {
    const Feature& one = encoding_.features()[f];
    const std::size_t levels = one.levels.size();
    std::vector<float> logs(levels * levels);
    for (std::size_t a = 0; a < levels; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        logs[a * levels + b] = logs[b * levels + a] =
            sign * static_cast<float>(std::log(std::max(matern(distance(one, a, b), kScales[scale]), 1e-30)));
      }
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float* const row = &logs[observations_[good[chosen[i]]].levels[f] * levels];
      for (std::size_t j = 0; j <= i; ++j) sum[at++] += row[observations_[good[chosen[j]]].levels[f]];
    }
  };
  std::vector<float> total(n * (n + 1) / 2, 0.0F), kernel(total.size());
  std::vector<double> scratch;
  const auto cost_of = [&](const std::vector<float>& logs, double noise) {
    for (std::size_t i = 0; i < logs.size(); ++i) kernel[i] = std::exp(logs[i]);
    return misfit(kernel, y, noise, scratch);
  };
  for (std::size_t f = 0; f < features; ++f) part(f, scale_[f], total, 1);
  double prior = 0;
  for (std::size_t f = 0; f < features; ++f) prior += penalty(encoding_.features()[f], scale_[f]);
  double best = cost_of(total, noise_) + prior;
  constexpr int kSweeps = 2;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t f = 0; f < features; ++f) {
      const std::size_t now = scale_[f];
      std::vector<float> without = total;
      part(f, now, without, -1);
      for (const int step : {-1, 1}) {
        if ((step < 0 && now == 0) || (step > 0 && now + 1 == kScales.size())) continue;
        const std::size_t trial = step < 0 ? now - 1 : now + 1;
        std::vector<float> logs = without;
        part(f, trial, logs, 1);
        const double change = penalty(encoding_.features()[f], trial) - penalty(encoding_.features()[f], now);
        const double cost = cost_of(logs, noise_) + prior + change;
        if (cost + 1e-9 < best) {
          best = cost;
          prior += change;
          scale_[f] = trial;
          total = std::move(logs);
          break;
        }
      }
    }
    for (const double noise : kNoises) {
      if (const double cost = cost_of(total, noise) + prior; cost + 1e-9 < best) {
        best = cost;
        noise_ = noise;
      }
    }
  }
  if (before == std::pair(scale_, noise_)) return false;
  for (std::size_t f = 0; f < features; ++f) make_table(f);
  return true;
}

void Surrogate::update(std::span<const double> values) {
  bool changed = false;
  if (fit_is_due()) {
    fitted_at_ = observations_.size();
    changed = fit(values);
  }
  if (changed) {
    appended_ = observations_.size();
    rebuild();
  } else {
    for (; appended_ < observations_.size(); ++appended_) append(observations_[appended_]);
  }
  // The mean that fits best, and the variance.
  const std::size_t n = good_.size();
  std::vector<double> y(n), one(n);
  double yy = 0, y1 = 0, o1 = 0;
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = values[i];
    one[i] = 1;
    for (std::size_t k = 0; k < i; ++k) {
      y[i] -= factor_[i][k] * y[k];
      one[i] -= factor_[i][k] * one[k];
    }
    y[i] /= factor_[i][i];
    one[i] /= factor_[i][i];
    yy += y[i] * y[i];
    y1 += y[i] * one[i];
    o1 += one[i] * one[i];
  }
  const double level = n == 0 ? 0 : y1 / o1;
  const double variance = n == 0 ? 1 : std::max((yy - y1 * y1 / o1) / static_cast<double>(n), 1e-12);
  mean_.assign(size_, static_cast<float>(level));
  for (std::size_t i = 0; i < n; ++i) {
    const auto weight = static_cast<float>(y[i] - level * one[i]);
    const float* const row = whitened_[i].data();
    for (std::size_t c = 0; c < size_; ++c) mean_[c] += weight * row[c];
  }
  deviation_.resize(size_);
  failure_.resize(size_);
  const auto root = static_cast<float>(std::sqrt(variance));
  const auto failed = static_cast<float>(observations_.size() - n);
  const float share = observations_.empty() ? 0 : failed / static_cast<float>(observations_.size());
  constexpr auto kWeight = static_cast<float>(kFailureWeight);
  for (std::size_t c = 0; c < size_; ++c) {
    deviation_[c] = root * std::sqrt(std::max(left_[c], 1e-6F));
    failure_[c] = (near_failed_[c] + kWeight * share) / (near_[c] + kWeight);
  }
}

}  // namespace ridge::search
