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
constexpr double kOfDeviation = 3;       // values that what is believed of their deviation counts as
constexpr double kFailureWeight = 0.3;   // of the overall share of failures beside those near a configuration

// Solves a small symmetric positive definite system in place: the solution takes the place of the right side.
void solve(std::vector<double>& matrix, std::vector<double>& right) {
  const std::size_t n = right.size();
  for (std::size_t k = 0; k < n; ++k) {
    const double pivot = std::max(matrix[k * n + k], 1e-12);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double share = matrix[i * n + k] / pivot;
      for (std::size_t j = k; j < n; ++j) matrix[i * n + j] -= share * matrix[k * n + j];
      right[i] -= share * right[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) right[k] -= matrix[k * n + j] * right[j];
    right[k] /= std::max(matrix[k * n + k], 1e-12);
  }
}

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

Surrogate::Surrogate(const Encoding& encoding, Trust trust)
    : encoding_(encoding),
      trust_(std::move(trust)),
      weights_(trust_.weight),
      pool_(std::make_shared<const Pool>()),
      model_(Kernel(encoding, first_scales(encoding)), pool_) {}

void Surrogate::set_pool(const std::vector<std::vector<std::uint8_t>>& pool, const std::vector<Expectation>& expected) {
  auto made = std::make_shared<Pool>();
  const std::size_t features = encoding_.features().size();
  made->size = pool.size();
  made->codes.resize(pool.size() * features);
  for (std::size_t c = 0; c < pool.size(); ++c) {
    for (std::size_t f = 0; f < features; ++f) made->codes[f * pool.size() + c] = pool[c][f];
  }
  made->expected.resize(weights_.size());
  for (const Expectation& one : expected) {
    for (std::size_t s = 0; s < weights_.size(); ++s) made->expected[s].push_back(static_cast<float>(one.values[s]));
    made->failing.push_back(static_cast<float>(one.failing));
  }
  pool_ = std::move(made);
}

void Surrogate::add(const std::vector<std::uint8_t>& levels, Expectation expected, bool failed) {
  observations_.push_back({levels, std::move(expected.values), failed});
}

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
    const Observation& one = observations_[good[i]];
    levels.push_back(one.levels);
    y.push_back(values[i]);
    for (std::size_t s = 0; s < weights_.size(); ++s) y.back() -= weights_[s] * one.expected[s];
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

// The level and the weights of the sources that explain the values best, both divided by the factor, within what the
// sources were trusted with before.
double Surrogate::weigh(const std::vector<std::vector<double>>& columns, const std::vector<double>& y) {
  const std::size_t n = y.size(), unknowns = columns.size();
  std::vector<double> solution(unknowns, 0.0);
  for (std::size_t s = 0; s < trust_.weight.size(); ++s) solution[s + 1] = trust_.weight[s];
  const double before = trust_.weight.empty() ? 0 : kOfDeviation;  // values that the deviation before data counts as
  double variance = 1;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    // The level alone first, so that the variance is that of the trusted weights.
    const std::size_t free = round == 0 ? 1 : unknowns;
    std::vector<double> matrix(free * free), right(free);
    for (std::size_t a = 0; a < free; ++a) {
      for (std::size_t b = 0; b < free; ++b) {
        for (std::size_t i = 0; i < n; ++i) matrix[a * free + b] += columns[a][i] * columns[b][i];
      }
      for (std::size_t i = 0; i < n; ++i) {
        double value = y[i];
        for (std::size_t b = free; b < unknowns; ++b) value -= solution[b] * columns[b][i];
        right[a] += columns[a][i] * value;
      }
      if (a == 0) continue;
      const double ridge = variance / trust_.variance;
      matrix[a * free + a] += ridge;
      right[a] += ridge * trust_.weight[a - 1];
    }
    solve(matrix, right);
    std::ranges::copy(right, solution.begin());
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double rest = y[i];
      for (std::size_t b = 0; b < unknowns; ++b) rest -= solution[b] * columns[b][i];
      squares += rest * rest;
    }
    variance =
        std::max((squares + before * trust_.deviation * trust_.deviation) / (static_cast<double>(n) + before), 1e-12);
    if (unknowns == 1) break;
  }
  level_ = solution[0];
  weights_.assign(solution.begin() + 1, solution.end());
  return variance;
}

void Surrogate::answer(std::span<const double> values) {
  const std::size_t n = model_.good.size(), size = model_.pool->size, sources = weights_.size();
  std::vector<double> y(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
  std::vector<std::vector<double>> columns(sources + 1, std::vector<double>(n, 1.0));
  for (std::size_t s = 0; s < sources; ++s) {
    for (std::size_t i = 0; i < n; ++i) columns[s + 1][i] = observations_[model_.good[i]].expected[s];
  }
  const auto divide = [&](std::vector<double>& column) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::vector<double>& row = model_.factor[i];
      for (std::size_t k = 0; k < i; ++k) column[i] -= row[k] * column[k];
      column[i] /= row[i];
    }
  };
  divide(y);
  for (std::vector<double>& column : columns) divide(column);
  const double variance = n == 0 ? 1 : weigh(columns, y);
  mean_.assign(size, static_cast<float>(level_));
  for (std::size_t s = 0; s < sources; ++s) {
    const auto weight = static_cast<float>(weights_[s]);
    const float* const row = model_.pool->expected[s].data();
    for (std::size_t c = 0; c < size; ++c) mean_[c] += weight * row[c];
  }
  for (std::size_t i = 0; i < n; ++i) {
    double rest = y[i] - level_ * columns[0][i];
    for (std::size_t s = 0; s < sources; ++s) rest -= weights_[s] * columns[s + 1][i];
    const auto weight = static_cast<float>(rest);
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
    const float before = std::max(share, model_.pool->failing[c]);
    failure_[c] = (model_.near_failed[c] + kWeight * before) / (model_.near[c] + kWeight);
  }
}

}  // namespace ridge::search
