// Several subjects on one problem, all alive at once and interleaved, in as many fresh sessions as time allows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/measurement_backend.h"
#include "measure/rounds.h"

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

// A session that the machine disturbed beyond the protocol's limits is dropped before its times are looked at, and
// repeated while there is time. When too few are left, the disturbed ones count too, and the guards say so.
class BenchCase {
 public:
  BenchCase(MeasurementBackend& measurement, const record::Protocol& protocol, const ops::Operator& op,
            const ops::Problem& problem, std::vector<const Subject*> subjects)
      : measurement_(measurement),
        protocol_(protocol),
        op_(op),
        problems_{problem},
        subjects_(std::move(subjects)),
        collected_(subjects_.size()) {}

  // The first subject is the one that all others are compared with.
  void run(const BenchGoal& goal);

  [[nodiscard]] const std::vector<BenchSamples>& collected() const { return collected_; }
  // The worst of the sessions that count, and "dropped_sessions" that do not.
  [[nodiscard]] const std::map<std::string, double>& guards() const { return guards_; }

 private:
  using Guards = std::map<std::string, double>;
  // Latencies of every round; failures go to collected_ at once.
  std::vector<measure::Round> session(std::int64_t rounds, bool full_check, Guards& guards);
  void keep(const std::vector<measure::Round>& rounds, const Guards& guards);
  [[nodiscard]] std::int64_t rounds_wanted(const BenchGoal& goal) const;
  [[nodiscard]] bool reached(const BenchGoal& goal) const;

  MeasurementBackend& measurement_;
  const record::Protocol& protocol_;
  const ops::Operator& op_;
  std::vector<ops::Problem> problems_;
  std::vector<const Subject*> subjects_;
  std::vector<BenchSamples> collected_;
  Guards guards_;
  measure::Coin coin_;
};

}  // namespace ridge::evaluate
