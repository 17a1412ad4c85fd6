#include "search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace ridge::search {
namespace {

constexpr std::size_t kFirstFit = 8;
constexpr double kGrowth = 1.3;          // of the observations between two fits
constexpr std::size_t kMostInFit = 160;  // the likelihood costs their third power
constexpr double kWork = 20e6;           // multiplications of a fit and a new model in one update
constexpr double kFailureWeight = 0.3;   // of the overall share of failures beside those near a configuration

// The best ones, and as many of the others: what matters is how the good region looks.
std::vector<std::size_t> chosen_for_fit(std::span<const double> values) {
  std::vector<std::size_t> chosen(values.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (chosen.size() <= kMostInFit) return chosen;
  std::ranges::sort(chosen, {}, [&](std::size_t i) { return values[i]; });
  constexpr std::size_t kHalf = kMostInFit / 2;
  const std::size_t others = chosen.size() - kHalf;
  for (std::size_t i = 0; i < kHalf; ++i) chosen[kHalf + i] = chosen[kHalf + i * others / kHalf];
  chosen.resize(kMostInFit);
  return chosen;
}

}  // namespace

Surrogate::Model::Model(Kernel with, std::shared_ptr<const Pool> over)
    : kernel(std::move(with)),
      pool(std::move(over)),
      left(pool->size, 1.0F),
      near_failed(pool->size, 0.0F),
      near(pool->size, 0.0F) {}

double Surrogate::Model::work() const {
  return static_cast<double>(pool->size) * static_cast<double>(kernel.scales().place.size() + good.size());
}

// One more row of the factor, and of its inverse times the kernel.
void Surrogate::Model::append(std::span<const Observation> observations) {
  const std::size_t number = appended++;
  const Observation& one = observations[number];
  const std::size_t size = pool->size;
  std::vector<float> row(size);
  kernel.row(one.levels, pool->codes, row);
  for (std::size_t c = 0; c < size; ++c) near[c] += row[c];
  if (one.failed) {
    for (std::size_t c = 0; c < size; ++c) near_failed[c] += row[c];
    return;
  }
  std::vector<double> l;
  l.reserve(good.size() + 1);
  double rest = 1 + kernel.scales().noise;
  for (std::size_t i = 0; i < good.size(); ++i) {
    double sum = kernel.between(one.levels, observations[good[i]].levels);
    for (std::size_t k = 0; k < i; ++k) sum -= l[k] * factor[i][k];
    l.push_back(sum / factor[i][i]);
    rest -= l.back() * l.back();
  }
  l.push_back(std::sqrt(std::max(rest, 1e-8)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    const auto weight = static_cast<float>(l[i]);
    const float* const other = whitened[i].data();
    for (std::size_t c = 0; c < size; ++c) row[c] -= weight * other[c];
  }
  const auto scale = static_cast<float>(1 / l.back());
  for (std::size_t c = 0; c < size; ++c) {
    row[c] *= scale;
    left[c] -= row[c] * row[c];
  }
  factor.push_back(std::move(l));
  whitened.push_back(std::move(row));
  good.push_back(number);
}

Surrogate::Surrogate(const Encoding& encoding)
    : encoding_(encoding),
      pool_(std::make_shared<const Pool>()),
      model_(Kernel(encoding, first_scales(encoding)), pool_) {}

void Surrogate::set_pool(const std::vector<std::vector<std::uint8_t>>& pool) {
  auto made = std::make_shared<Pool>();
  const std::size_t features = encoding_.features().size();
  made->size = pool.size();
  made->codes.resize(pool.size() * features);
  for (std::size_t c = 0; c < pool.size(); ++c) {
    for (std::size_t f = 0; f < features; ++f) made->codes[f * pool.size() + c] = pool[c][f];
  }
  pool_ = std::move(made);
}

void Surrogate::add(const std::vector<std::uint8_t>& levels, bool failed) { observations_.push_back({levels, failed}); }

bool Surrogate::fit_is_due() const {
  return !fit_ && !next_ && observations_.size() >= kFirstFit &&
         static_cast<double>(observations_.size()) >= kGrowth * static_cast<double>(fitted_at_);
}

void Surrogate::begin_fit(std::span<const double> values) {
  fitted_at_ = observations_.size();
  if (values.size() < kFirstFit) return;
  std::vector<std::size_t> good;
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    if (!observations_[i].failed) good.push_back(i);
  }
  std::vector<std::vector<std::uint8_t>> levels;
  std::vector<double> y;
  for (const std::size_t i : chosen_for_fit(values)) {
    levels.push_back(observations_[good[i]].levels);
    y.push_back(values[i]);
  }
  fit_.emplace(encoding_, model_.kernel.scales(), std::move(levels), std::move(y));
}

bool Surrogate::advance() {
  double work = kWork;
  if (fit_) {
    if (!fit_->advance(work)) return false;
    if (fit_->scales() != model_.kernel.scales()) next_.emplace(Kernel(encoding_, fit_->scales()), pool_);
    fit_.reset();
  }
  if (!fit_ && !next_ && model_.pool != pool_) next_.emplace(model_.kernel, pool_);
  if (!next_) return false;
  while (next_->appended < observations_.size()) {
    if (work <= 0) return false;
    work -= next_->work();
    next_->append(observations_);
  }
  model_ = std::move(*next_);
  next_.reset();
  return true;
}

bool Surrogate::update(std::span<const double> values) {
  if (fit_is_due()) begin_fit(values);
  const bool changed = advance();
  while (model_.appended < observations_.size()) model_.append(observations_);
  answer(values);
  return changed;
}

void Surrogate::answer(std::span<const double> values) {
  // The mean that fits best, and the variance.
  const std::size_t n = model_.good.size(), size = model_.pool->size;
  std::vector<double> y(n), one(n);
  double yy = 0, y1 = 0, o1 = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<double>& row = model_.factor[i];
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
  const double level = n == 0 ? 0 : y1 / o1;
  const double variance = n == 0 ? 1 : std::max((yy - y1 * y1 / o1) / static_cast<double>(n), 1e-12);
  mean_.assign(size, static_cast<float>(level));
  for (std::size_t i = 0; i < n; ++i) {
    const auto weight = static_cast<float>(y[i] - level * one[i]);
    const float* const row = model_.whitened[i].data();
    for (std::size_t c = 0; c < size; ++c) mean_[c] += weight * row[c];
  }
  deviation_.resize(size);
  failure_.resize(size);
  const auto root = static_cast<float>(std::sqrt(variance));
  const auto failed = static_cast<float>(observations_.size() - n);
  const float share = observations_.empty() ? 0 : failed / static_cast<float>(observations_.size());
  constexpr auto kWeight = static_cast<float>(kFailureWeight);
  for (std::size_t c = 0; c < size; ++c) {
    deviation_[c] = root * std::sqrt(std::max(model_.left[c], 1e-6F));
    failure_[c] = (model_.near_failed[c] + kWeight * share) / (model_.near[c] + kWeight);
  }
}

}  // namespace ridge::search
