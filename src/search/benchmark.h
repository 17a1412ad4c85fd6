// Runs of a strategy on a recording over seeds, as one row of a report.
#pragma once

#include "record/tuning_replay.h"
#include "search/replay.h"

namespace ridge::search {

struct BenchmarkOptions {
  std::size_t seeds = 100;
  std::uint64_t first_seed = 1;
  std::size_t most_evaluations = 500;     // of a run, and that a score is a mean over
  bool beyond_score = false;              // go on to most_evaluations where the score ends earlier
  std::span<const PastSource> past = {};  // what "ours" may look at
};

// Names of space, kernel and device are the caller's to fill in.
Result<record::ReplayRow> benchmark(const Recording& recording, const std::string& strategy,
                                    const BenchmarkOptions& options);

// The same of runs that were recorded elsewhere, all of one strategy, at least one. An error names the run and the row.
Result<record::ReplayRow> benchmark_recorded(const Recording& recording, const std::vector<record::TuningRun>& runs,
                                             const BenchmarkOptions& options);

// By strategy, in the order of the rows.
std::vector<record::ReplayMean> means_of(const std::vector<record::ReplayRow>& rows, std::size_t most_evaluations);

}  // namespace ridge::search
