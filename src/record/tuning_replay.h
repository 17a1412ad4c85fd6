// What `ridge tune replay` answers: how a search did on a recorded space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct ReplayRow {
  std::string space, kernel, device, strategy;
  std::int64_t configurations = 0, failing = 0;  // of the space
  std::int64_t seeds = 0;
  std::int64_t evaluations = 0;          // that the score per evaluation is a mean over
  double score_per_evaluation = 0;       // 0: random search; 1: the optimum from the first evaluation on
  double score_low = 0, score_high = 0;  // a 95 % interval of its mean over seeds
  double score_over_time = 0;            // the published score
  // Medians over seeds of the evaluations to that share of the optimum; absent where fewer than half of the runs came
  // so far.
  std::optional<std::int64_t> to_90, to_95, to_99;
  double at_25 = 0, at_50 = 0, at_100 = 0, at_200 = 0;   // optimum / best after so many evaluations, mean
  double failures = 0;                                   // evaluations of a run that failed, mean
  double propose_seconds = 0, propose_seconds_most = 0;  // per proposal
  std::vector<double> curve,
      random_curve;  // optimum / best after 1, 2, ... evaluations: mean of the runs; random search
  static void fields(auto& v, auto& self) {
    v("space", self.space);
    v("kernel", self.kernel);
    v("device", self.device);
    v("strategy", self.strategy);
    v("configurations", self.configurations);
    v("failing", self.failing);
    v("seeds", self.seeds);
    v("evaluations", self.evaluations);
    v("score_per_evaluation", self.score_per_evaluation);
    v("score_low", self.score_low);
    v("score_high", self.score_high);
    v("score_over_time", self.score_over_time);
    v.optional("evaluations_to_90", self.to_90);
    v.optional("evaluations_to_95", self.to_95);
    v.optional("evaluations_to_99", self.to_99);
    v("at_25", self.at_25);
    v("at_50", self.at_50);
    v("at_100", self.at_100);
    v("at_200", self.at_200);
    v("failures", self.failures);
    v("propose_seconds", self.propose_seconds);
    v("propose_seconds_most", self.propose_seconds_most);
    v("curve", self.curve);
    v("random_curve", self.random_curve);
  }
};

// Of one strategy over all spaces.
struct ReplayMean {
  std::string strategy;
  std::int64_t spaces = 0;
  double score_per_evaluation = 0, score_over_time = 0;
  double evaluations_to_95 = 0;  // geometric mean of the medians; a space where half of the runs did not come so far
                                 // counts with the most that a run may make
  static void fields(auto& v, auto& self) {
    v("strategy", self.strategy);
    v("spaces", self.spaces);
    v("score_per_evaluation", self.score_per_evaluation);
    v("score_over_time", self.score_over_time);
    v("evaluations_to_95", self.evaluations_to_95);
  }
};

struct ReplayReport {
  std::int64_t most_evaluations = 0;
  std::vector<ReplayRow> rows;
  std::vector<ReplayMean> means;
  static void fields(auto& v, auto& self) {
    v("most_evaluations", self.most_evaluations);
    v("rows", self.rows);
    v("means", self.means);
  }
};

// What a search measured that ran elsewhere: rows of a recording, counted from 0, in their order.
struct TuningRun {
  std::string recording, strategy;
  std::int64_t seed = 0;
  std::vector<std::int64_t> rows;
  static void fields(auto& v, auto& self) {
    v("recording", self.recording);
    v("strategy", self.strategy);
    v("seed", self.seed);
    v("rows", self.rows);
  }
};

// A run a line; an error names the line.
Result<std::vector<TuningRun>> parse_tuning_runs(std::string_view text);

// A line per row, without the curves; with `curves`, instead, a line per row and evaluation: the curves.
std::string replay_csv(const std::vector<ReplayRow>& rows, bool curves);

}  // namespace ridge::record
