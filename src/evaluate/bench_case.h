// Several subjects on one problem, all alive at once and interleaved, in as many fresh sessions as time allows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/rig.h"
#include "measure/quads.h"

namespace ridge::evaluate {

// What was collected about one subject.
struct BenchSamples {
  std::vector<double> samples;              // seconds, in the order they ran
  std::vector<double> session_log_medians;  // one per session
  std::vector<double> session_log_ratios;   // of the first subject's time over this one's; paired, one per session
  double timed = 0;                         // seconds of all samples together
  std::optional<Failure> failure;
};

struct BenchGoal {
  std::int64_t samples = 48;
  double min_time = 0;  // seconds of timed calls of every subject
  double seconds = 0;   // of wall time; no further session is begun when it would exceed them
  bool full_check = true;
};

class BenchCase {
 public:
  BenchCase(Rig& rig, const ops::Operator& op, const ops::Problem& problem, std::vector<const Subject*> subjects)
      : rig_(rig), op_(op), problems_{problem}, subjects_(std::move(subjects)), collected_(subjects_.size()) {}

  // The first subject is the one that all others are compared with.
  void run(const BenchGoal& goal);

  [[nodiscard]] const std::vector<BenchSamples>& collected() const { return collected_; }
  // The worst of the sessions.
  [[nodiscard]] const std::map<std::string, double>& guards() const { return guards_; }
  // Guards of every session, in order: what may have disturbed it.
  [[nodiscard]] std::int64_t sessions() const { return sessions_; }

 private:
  void session(std::int64_t rounds, bool full_check);
  [[nodiscard]] std::int64_t rounds_wanted(const BenchGoal& goal) const;
  [[nodiscard]] bool reached(const BenchGoal& goal) const;

  Rig& rig_;
  const ops::Operator& op_;
  std::vector<ops::Problem> problems_;
  std::vector<const Subject*> subjects_;
  std::vector<BenchSamples> collected_;
  std::map<std::string, double> guards_;
  std::int64_t sessions_ = 0;
  measure::Coin coin_;
};

}  // namespace ridge::evaluate
