#include "search/benchmark.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <unordered_set>

#include "base/error.h"

namespace ridge::search {
namespace {

struct Sum {
  double sum = 0, squares = 0;
  std::size_t count = 0;
  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  [[nodiscard]] double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  // Half the width of a 95 % interval of the mean.
  [[nodiscard]] double half_width() const {
    if (count < 2) return 0;
    const auto n = static_cast<double>(count);
    return 1.96 * std::sqrt(std::max(squares / n - mean() * mean(), 0.0) / (n - 1));
  }
};

// The lower median of the evaluations to a share of the optimum, where at least half of the runs came so far.
std::optional<std::int64_t> median_evaluations(const Scale& scale, const std::vector<Trace>& traces, double share) {
  std::vector<std::size_t> needed;
  for (const Trace& trace : traces) {
    if (const auto n = scale.evaluations_to(trace, share)) needed.push_back(*n);
  }
  const std::size_t middle = (traces.size() - 1) / 2;
  if (needed.size() <= middle) return std::nullopt;
  std::ranges::sort(needed);
  return static_cast<std::int64_t>(needed[middle]);
}

void add_curves(const Scale& scale, const std::vector<Trace>& traces, record::ReplayRow& row) {
  for (std::size_t n = 1; n <= scale.evaluations(); ++n) {
    Sum attained;
    for (const Trace& trace : traces) attained.add(scale.attained(trace, n));
    row.curve.push_back(attained.mean());
    row.random_curve.push_back(scale.optimum() / scale.random_after(n));
  }
}

void summarise(const Scale& scale, const std::vector<Trace>& traces, record::ReplayRow& row) {
  Sum score, failures, at_25, at_50, at_100, at_200;
  double proposals = 0;
  for (const Trace& trace : traces) {
    score.add(scale.per_evaluation(trace));
    failures.add(static_cast<double>(trace.failures));
    at_25.add(scale.attained(trace, 25));
    at_50.add(scale.attained(trace, 50));
    at_100.add(scale.attained(trace, 100));
    at_200.add(scale.attained(trace, 200));
    row.propose_seconds += trace.seconds_to_propose;
    row.propose_seconds_most = std::max(row.propose_seconds_most, trace.longest_proposal);
    proposals += static_cast<double>(trace.best.size());
  }
  row.score_per_evaluation = score.mean();
  row.score_low = score.mean() - score.half_width();
  row.score_high = score.mean() + score.half_width();
  row.score_over_time = scale.over_time(traces);
  row.to_90 = median_evaluations(scale, traces, 0.90);
  row.to_95 = median_evaluations(scale, traces, 0.95);
  row.to_99 = median_evaluations(scale, traces, 0.99);
  row.at_25 = at_25.mean();
  row.at_50 = at_50.mean();
  row.at_100 = at_100.mean();
  row.at_200 = at_200.mean();
  row.failures = failures.mean();
  row.propose_seconds /= std::max(proposals, 1.0);
  add_curves(scale, traces, row);
}

// Measures what it was told to, in that order.
class RecordedStrategy : public Strategy {
 public:
  explicit RecordedStrategy(std::vector<std::uint64_t> order) : order_(std::move(order)) {}
  std::optional<std::uint64_t> propose() override {
    return next_ < order_.size() ? std::optional(order_[next_++]) : std::nullopt;
  }
  void observe(std::uint64_t, std::optional<double>) override {}

 private:
  std::vector<std::uint64_t> order_;
  std::size_t next_ = 0;
};

// The rows of one recorded run as numbers of the space; an error says which row is not there or is there twice.
Result<std::vector<std::uint64_t>> order_of(const Recording& recording, const record::TuningRun& run) {
  std::vector<std::uint64_t> order;
  std::unordered_set<std::int64_t> seen;
  for (const std::int64_t row : run.rows) {
    if (row < 0 || row >= std::ssize(recording.of_row)) {
      return invalid("{}, seed {}: row {} of {}", run.strategy, run.seed, row, recording.of_row.size());
    }
    if (!seen.insert(row).second) return invalid("{}, seed {}: row {} twice", run.strategy, run.seed, row);
    order.push_back(recording.of_row[static_cast<std::size_t>(row)]);
  }
  if (order.empty()) return invalid("{}, seed {}: no row", run.strategy, run.seed);
  return order;
}

using MakeStrategy = std::function<Result<std::unique_ptr<Strategy>>(std::size_t run)>;

Result<record::ReplayRow> replay_all(const Recording& recording, const std::string& name, std::size_t runs,
                                     const BenchmarkOptions& options, const MakeStrategy& make) {
  const Scale scale(recording, {}, options.most_evaluations);
  record::ReplayRow row;
  row.strategy = name;
  row.configurations = static_cast<std::int64_t>(recording.space.count());
  row.failing = std::ranges::count_if(recording.time, [](double t) { return std::isnan(t); });
  row.seeds = static_cast<std::int64_t>(runs);
  row.evaluations = static_cast<std::int64_t>(scale.evaluations());
  std::vector<Trace> traces;
  for (std::size_t run = 0; run < runs; ++run) {
    RIDGE_TRY(search, make(run));
    const std::size_t most = options.beyond_score ? options.most_evaluations : scale.evaluations();
    traces.push_back(replay(recording, *search, scale, most));
  }
  summarise(scale, traces, row);
  return row;
}

}  // namespace

Result<record::ReplayRow> benchmark(const Recording& recording, const std::string& strategy,
                                    const BenchmarkOptions& options) {
  return replay_all(recording, strategy, options.seeds, options, [&](std::size_t run) {
    return make_strategy(strategy, recording.space, options.first_seed + run, options.past);
  });
}

Result<record::ReplayRow> benchmark_recorded(const Recording& recording, const std::vector<record::TuningRun>& runs,
                                             const BenchmarkOptions& options) {
  std::vector<std::vector<std::uint64_t>> orders;
  for (const record::TuningRun& run : runs) {
    RIDGE_TRY(order, order_of(recording, run));
    orders.push_back(std::move(order));
  }
  return replay_all(recording, runs.front().strategy, runs.size(), options,
                    [&](std::size_t run) -> Result<std::unique_ptr<Strategy>> {
                      return std::unique_ptr<Strategy>(std::make_unique<RecordedStrategy>(orders[run]));
                    });
}

std::vector<record::ReplayMean> means_of(const std::vector<record::ReplayRow>& rows, std::size_t most_evaluations) {
  std::vector<record::ReplayMean> means;
  for (const record::ReplayRow& row : rows) {
    auto found = std::ranges::find(means, row.strategy, &record::ReplayMean::strategy);
    if (found == means.end()) found = means.insert(means.end(), {row.strategy});
    ++found->spaces;
    found->score_per_evaluation += row.score_per_evaluation;
    found->score_over_time += row.score_over_time;
    found->evaluations_to_95 +=
        std::log(static_cast<double>(row.to_95.value_or(static_cast<std::int64_t>(most_evaluations))));
  }
  for (record::ReplayMean& mean : means) {
    const auto spaces = static_cast<double>(mean.spaces);
    mean.score_per_evaluation /= spaces;
    mean.score_over_time /= spaces;
    mean.evaluations_to_95 = std::exp(mean.evaluations_to_95 / spaces);
  }
  return means;
}

}  // namespace ridge::search
