#include "search/replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"

namespace ridge::search {
namespace {

constexpr std::size_t kTimePoints = 1000;

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

// How many evaluations random search needs on average to come that share of the way from the median to the optimum.
std::size_t evaluations_at(const std::vector<double>& sorted, double share) {
  const std::size_t count = sorted.size();
  const double optimum = sorted.front();
  const double target = optimum + (median_of(sorted) - optimum) * (1 - share);
  std::size_t place = 0;  // in descending order, the first that is as fast as the target
  while (place + 1 < count && sorted[count - 1 - place] > target) ++place;
  if (place > 0 && share < 1 && sorted[count - 1 - place] <= optimum) --place;
  const auto i = static_cast<double>(place);
  return std::max<std::size_t>(static_cast<std::size_t>(std::ceil(i / (static_cast<double>(count) + 1 - i))), 1);
}

// The best non-increasing step function through points that are sorted by time, as its value at every point.
std::vector<double> falling(const std::vector<double>& values) {
  struct Block {
    double sum;
    std::size_t count;
    [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (const double value : values) {
    blocks.push_back({value, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() <= blocks.back().mean()) {
      blocks[blocks.size() - 2].sum += blocks.back().sum;
      blocks[blocks.size() - 2].count += blocks.back().count;
      blocks.pop_back();
    }
  }
  std::vector<double> fitted;
  for (const Block& block : blocks) fitted.insert(fitted.end(), block.count, block.mean());
  return fitted;
}

}  // namespace

Result<Recording> recording_of(const record::TuningCache& cache) {
  std::vector<Point> points;
  for (const record::TuningRow& row : cache.rows) points.push_back(row.values);
  RIDGE_TRY(space, Space::of_points(cache.parameters, points));
  Recording recording{
      std::move(space), std::vector<double>(cache.rows.size()), std::vector<double>(cache.rows.size()), {}};
  for (const record::TuningRow& row : cache.rows) {
    const std::uint64_t number = *recording.space.rank(row.values);
    recording.time[number] = row.time;
    recording.cost[number] = row.cost;
    recording.of_row.push_back(number);
  }
  return recording;
}

Scale::Scale(const Recording& recording, Window window, std::size_t most_evaluations) {
  std::vector<double> good_cost, failed_cost;
  for (std::size_t i = 0; i < recording.time.size(); ++i) {
    const bool failed = std::isnan(recording.time[i]);
    if (!failed) sorted_.push_back(recording.time[i]);
    (failed ? failed_cost : good_cost).push_back(recording.cost[i]);
  }
  std::ranges::sort(sorted_);
  optimum_ = sorted_.front();
  slowest_ = sorted_.back();
  const auto all = static_cast<double>(recording.time.size());
  per_evaluation_cost_ = mean_of(good_cost) + mean_of(failed_cost) * static_cast<double>(failed_cost.size()) / all;
  const std::size_t last = evaluations_at(sorted_, window.end);
  evaluations_ = std::min({last, most_evaluations, recording.time.size()});
  const double typical = median_of(recording.cost);
  first_second_ = static_cast<double>(evaluations_at(sorted_, window.start)) * typical;
  last_second_ = static_cast<double>(last) * typical;
  std::vector<double> worst_last = sorted_;
  worst_last.insert(worst_last.end(), failed_cost.size(), slowest_);
  const std::size_t count = worst_last.size();
  for (std::size_t n = 1; n <= std::min(most_evaluations, count); ++n) {
    double chance = static_cast<double>(n) / static_cast<double>(count), expected = 0;
    for (std::size_t k = 0; k + n <= count; ++k) {  // the k-th fastest is the best of n
      expected += chance * worst_last[k];
      chance *= (static_cast<double>(count - k) - static_cast<double>(n)) / static_cast<double>(count - k - 1);
      if (chance < 1e-18) break;
    }
    random_.push_back(expected);
  }
}

double Scale::per_evaluation(const Trace& trace) const {
  double sum = 0;
  std::size_t counted = 0;
  for (std::size_t n = 1; n <= evaluations_; ++n) {
    const double room = random_after(n) - optimum_;
    if (room <= 0) break;
    const double best = trace.best[std::min(n, trace.best.size()) - 1];
    sum += (random_after(n) - best) / room;
    ++counted;
  }
  return counted == 0 ? 0 : sum / static_cast<double>(counted);
}

double Scale::attained(const Trace& trace, std::size_t n) const {
  return optimum_ / trace.best[std::min(n, trace.best.size()) - 1];
}

std::optional<std::size_t> Scale::evaluations_to(const Trace& trace, double share) const {
  const auto found = std::ranges::find_if(trace.best, [&](double best) { return optimum_ / best >= share; });
  if (found == trace.best.end()) return std::nullopt;
  return static_cast<std::size_t>(found - trace.best.begin()) + 1;
}

// The expected rank of the best of as many draws as fit into the time.
double Scale::random_at(double second) const {
  const auto count = static_cast<double>(sorted_.size());
  const double draws = std::max(second / per_evaluation_cost_, 1.0);
  // Between whole numbers of draws the curve is a straight line.
  const auto at = [&](double m) {
    const double place = std::min(count - 1, std::round(m * (count + 1) / (m + 1)));
    return sorted_[static_cast<std::size_t>(count - 1 - place)];
  };
  const double below = std::floor(draws), part = draws - below;
  return (1 - part) * at(below) + part * at(below + 1);
}

double Scale::over_time(const std::vector<Trace>& traces) const {
  struct Seen {
    double second, place;
  };
  std::vector<Seen> seen;
  const auto place_of = [&](double best) {
    return static_cast<double>(std::ranges::lower_bound(sorted_, best) - sorted_.begin());
  };
  for (const Trace& trace : traces) {
    double second = 0;
    for (std::size_t i = 0; i < trace.best.size(); ++i) {
      second = trace.cost[i];
      if (second >= 0.9 * first_second_ && second <= 1.1 * last_second_)
        seen.push_back({second, place_of(trace.best[i])});
    }
    // A run that ended with the optimum would have gone on with it.
    for (; trace.best.back() <= optimum_ && second <= 1.1 * last_second_; second += per_evaluation_cost_) {
      if (second >= 0.9 * first_second_) seen.push_back({second, 0});
    }
  }
  if (seen.empty()) return 0;
  std::ranges::sort(seen, {}, &Seen::second);
  std::vector<double> places;
  for (const Seen& one : seen) places.push_back(one.place);
  const std::vector<double> fitted = falling(places);
  double sum = 0;
  for (std::size_t i = 0; i < kTimePoints; ++i) {
    const double second = first_second_ + (last_second_ - first_second_) * static_cast<double>(i) / (kTimePoints - 1);
    const auto after = std::ranges::lower_bound(seen, second, {}, &Seen::second);
    const auto right = std::min(static_cast<std::size_t>(after - seen.begin()), seen.size() - 1);
    const std::size_t left = right == 0 ? 0 : right - 1;
    const double width = seen[right].second - seen[left].second;
    const double part = width > 0 ? std::clamp((second - seen[left].second) / width, 0.0, 1.0) : 1.0;
    const double place = (1 - part) * fitted[left] + part * fitted[right];
    const double ours = sorted_[static_cast<std::size_t>(std::lround(place))];
    const double random = random_at(second);
    if (random > optimum_)
      sum += (random - ours) / (random - optimum_);
    else
      sum += ours <= optimum_ ? 1.0 : 0.0;
  }
  return sum / kTimePoints;
}

Trace replay(const Recording& recording, Strategy& strategy, const Scale& scale, std::size_t evaluations) {
  Trace trace;
  SystemClock clock;
  double best = scale.slowest(), cost = 0;
  while (trace.best.size() < evaluations && best > scale.optimum()) {
    const double before = clock.monotonic();
    const auto next = strategy.propose();
    const double spent = clock.monotonic() - before;
    trace.seconds_to_propose += spent;
    trace.longest_proposal = std::max(trace.longest_proposal, spent);
    if (!next) break;
    const double time = recording.time[*next];
    cost += recording.cost[*next];
    if (std::isnan(time)) {
      ++trace.failures;
      strategy.observe(*next, std::nullopt);
    } else {
      best = std::min(best, time);
      strategy.observe(*next, time);
    }
    trace.best.push_back(best);
    trace.cost.push_back(cost);
  }
  return trace;
}

}  // namespace ridge::search
