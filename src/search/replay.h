// A search on recorded measurements instead of a device, and its score as the auto-tuning community states it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/tuning_cache.h"
#include "search/space.h"
#include "search/strategy.h"

namespace ridge::search {

// Recorded measurements by the numbers of the space of their configurations.
struct Recording {
  Space space;
  std::vector<double> time;           // seconds; NaN where it failed
  std::vector<double> cost;           // seconds
  std::vector<std::uint64_t> of_row;  // by row of the file: the number of its configuration
};
Result<Recording> recording_of(const record::TuningCache& cache);

// One run: after every evaluation the fastest time so far (the slowest recorded one while all failed) and the cost
// until then.
struct Trace {
  std::vector<double> best, cost;
  double seconds_to_propose = 0, longest_proposal = 0;
  std::size_t failures = 0;
};

// Where scores are taken: between these shares of the way from the median to the optimum by random search.
struct Window {
  double start = 0.01, end = 0.95;
};

class Scale {
 public:
  Scale(const Recording& recording, Window window, std::size_t most_evaluations);

  // Evaluations that the score per evaluation is a mean over.
  [[nodiscard]] std::size_t evaluations() const { return evaluations_; }
  [[nodiscard]] double optimum() const { return optimum_; }
  [[nodiscard]] double slowest() const { return slowest_; }
  // What random search is expected to have after n evaluations, exactly: without replacement, failures the slowest.
  [[nodiscard]] double random_after(std::size_t n) const { return random_[n - 1]; }
  // The seconds between which the score over time is taken.
  [[nodiscard]] double first_second() const { return first_second_; }
  [[nodiscard]] double last_second() const { return last_second_; }

  // 0 as random search, 1 with the optimum from the first evaluation on.
  [[nodiscard]] double per_evaluation(const Trace& trace) const;
  // The published score: of all runs together, at equally spaced times.
  [[nodiscard]] double over_time(const std::vector<Trace>& traces) const;
  // optimum / best after n evaluations.
  [[nodiscard]] double attained(const Trace& trace, std::size_t n) const;
  // Evaluations to that share of the optimum; nothing when the run did not come so far.
  [[nodiscard]] std::optional<std::size_t> evaluations_to(const Trace& trace, double share) const;

 private:
  [[nodiscard]] double random_at(double second) const;

  std::vector<double> sorted_;  // times that did not fail, ascending
  std::vector<double> random_;
  double optimum_ = 0, slowest_ = 0, first_second_ = 0, last_second_ = 0, per_evaluation_cost_ = 0;
  std::size_t evaluations_ = 0;
};

// Ends when the optimum is found, after which nothing changes any more, and after `evaluations`.
Trace replay(const Recording& recording, Strategy& strategy, const Scale& scale, std::size_t evaluations);

}  // namespace ridge::search
