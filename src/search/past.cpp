#include "search/past.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::search {
namespace {

constexpr std::size_t kNoColumn = std::numeric_limits<std::size_t>::max();
constexpr std::uint16_t kNoValue = std::numeric_limits<std::uint16_t>::max();
constexpr double kNear = 0.7;  // the logarithm of a factor of two

// How far apart two values are: numbers by their ratio where both are positive.
double between(const record::ParameterValue& a, const record::ParameterValue& b) {
  if (!a.word.empty() || !b.word.empty()) return a.word == b.word ? 0 : 1;
  if (a.number > 0 && b.number > 0) return std::abs(std::log(a.number / b.number));
  return std::abs(a.number - b.number);
}

bool varies(const record::SearchParameter& parameter) { return parameter.values.size() > 1; }

}  // namespace

double shown_beyond(double beyond) { return beyond <= kNear ? beyond : kNear + kSlowShare * (beyond - kNear); }

Result<PastSource> PastSource::of(const record::TuningCache& cache) {
  std::vector<Point> points;
  for (const record::TuningRow& row : cache.rows) points.push_back(row.values);
  RIDGE_TRY(rows, Space::of_points(cache.parameters, points));
  PastSource source({cache.kernel, cache.device, cache.parameters, {}}, std::move(rows));
  double fastest = std::numeric_limits<double>::infinity(), slowest = 0;
  for (const record::TuningRow& row : cache.rows) {
    if (!row.failed()) fastest = std::min(fastest, row.time);
  }
  source.value_.resize(cache.rows.size());
  source.failed_.resize(cache.rows.size());
  for (const record::TuningRow& row : cache.rows) {
    const std::uint64_t number = *source.rows_.rank(row.values);
    source.failed_[number] = row.failed();
    if (row.failed()) continue;
    source.value_[number] = shown_beyond(std::log(row.time / fastest));
    slowest = std::max(slowest, source.value_[number]);
  }
  for (std::size_t i = 0; i < source.value_.size(); ++i) {
    if (source.failed_[i]) source.value_[i] = slowest;
  }
  source.make_effects();
  return source;
}

void PastSource::make_effects() {
  for (const double value : value_) mean_ += value / static_cast<double>(value_.size());
  for (std::size_t p = 0; p < cache_.parameters.size(); ++p) {
    constexpr double kOfMean = 2;  // rows that the mean counts as
    std::vector<double> sum(cache_.parameters[p].values.size()), count(sum.size(), kOfMean);
    for (std::uint64_t i = 0; i < rows_.count(); ++i) {
      const std::uint16_t value = rows_.point(i)[p];
      sum[value] += value_[i] - mean_;
      count[value] += 1;
    }
    for (std::size_t v = 0; v < sum.size(); ++v) sum[v] /= count[v];
    effect_.push_back(std::move(sum));
  }
}

bool PastSource::same_kernel(const Space& space) const {
  const auto has = [](const std::vector<record::SearchParameter>& all, const std::string& name) {
    return std::ranges::find(all, name, &record::SearchParameter::name) != all.end();
  };
  const auto covers = [&](const auto& one, const auto& other) {
    return std::ranges::all_of(one, [&](const auto& p) { return !varies(p) || has(other, p.name); });
  };
  return covers(cache_.parameters, space.parameters()) && covers(space.parameters(), cache_.parameters);
}

PastSource::View PastSource::view(const Space& space) const {
  View made;
  made.source_ = this;
  made.whole_ = true;
  for (const record::SearchParameter& mine : cache_.parameters) {
    const auto found = std::ranges::find(space.parameters(), mine.name, &record::SearchParameter::name);
    std::vector<std::uint16_t> exact, nearest;
    if (found != space.parameters().end()) {
      for (const record::ParameterValue& value : found->values) {
        const auto best =
            std::ranges::min_element(mine.values, {}, [&](const auto& other) { return between(value, other); });
        nearest.push_back(static_cast<std::uint16_t>(best - mine.values.begin()));
        exact.push_back(between(value, *best) == 0 ? nearest.back() : kNoValue);
      }
    } else {
      made.whole_ = made.whole_ && !varies(mine);
    }
    made.column_.push_back(
        found == space.parameters().end() ? kNoColumn : static_cast<std::size_t>(found - space.parameters().begin()));
    made.exact_.push_back(std::move(exact));
    made.nearest_.push_back(std::move(nearest));
  }
  return made;
}

std::optional<std::uint64_t> PastSource::View::find(const Point& point) const {
  if (!whole_) return std::nullopt;
  Point mine(column_.size(), 0);
  for (std::size_t p = 0; p < column_.size(); ++p) {
    if (column_[p] == kNoColumn) continue;
    mine[p] = exact_[p][point[column_[p]]];
    if (mine[p] == kNoValue) return std::nullopt;
  }
  return source_->rows_.rank(mine);
}

bool PastSource::View::failed(const Point& point) const {
  const auto found = find(point);
  return found && source_->failed_[*found];
}

double PastSource::View::value(const Point& point) const {
  if (const auto found = find(point)) return source_->value_[*found];
  double sum = source_->mean_;
  for (std::size_t p = 0; p < column_.size(); ++p) {
    if (column_[p] != kNoColumn) sum += source_->effect_[p][nearest_[p][point[column_[p]]]];
  }
  return sum;
}

}  // namespace ridge::search
