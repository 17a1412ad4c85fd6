// From raw launches to one number per session: S = log(time of incumbent A / time of candidate B), positive when the
// candidate is faster. Logarithms, because speed-ups multiply and because swapping the arms then only flips the sign.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::stats {

// One quad: four blocks of launches (seconds) in the order ABBA or BAAB. With the block medians a1, a2, b1, b2 it is
// D = (ln a1 + ln a2 - ln b1 - ln b2) / 2: a linear drift over the quad cancels exactly. Errors: another order, not
// four blocks, an empty block, a time that is not positive and finite.
Result<double> quad_log_ratio(std::string_view order, std::span<const std::vector<double>> blocks);

// How the quads of one shape become one number. Hodges-Lehmann is more efficient at few quads and nearly as robust.
enum class QuadEstimator { kHodgesLehmann, kMedian };

struct ShapeRatios {
  std::string label;
  double weight = 1;               // the workload's weight; only proportions matter
  std::vector<double> log_ratios;  // one per quad
};

struct SessionStatistic {
  double suite = 0;               // sum_s w_s S_s / sum_s w_s: the log of the weighted geometric-mean speed-up
  std::vector<double> per_shape;  // S_s in the order given, for the per-shape tests
  double slack = 0;               // what the session's disturbance may have added to any of them: GuardRule
};

// Errors: no shape, a shape without quads, a log ratio that is not finite, weights that are negative or all zero.
Result<SessionStatistic> session_statistic(std::span<const ShapeRatios> shapes,
                                           QuadEstimator estimator = QuadEstimator::kHodgesLehmann);

// Facts about a session that are the same for both arms, so that voiding on them cannot favour one.
struct GuardLimit {
  std::string name;
  double low, high;  // inside is fine; NaN is not
};

// What a session on an undisturbed machine shows at most; the first three as the campaign's protocol says:
//   clock_gap        |median clock of A / of B - 1|
//   steal_fraction   CPU time taken by the hypervisor
//   foreign_load     CPU or GPU time of other processes
//   throttle         throttle reasons seen, a count          0
//   missing_samples  a count                                 0
std::vector<GuardLimit> guard_limits(double clock_gap = 0.005, double steal_fraction = 0.05,
                                     double foreign_load = 0.10);

// What a rule of decision makes of the guards of a session. docs/measurement.md has the argument.
//
// sign-betting-1 voids a session outside guard_limits(). sign-betting-2 voids only what is no measurement (throttle,
// missing_samples). Load and steal hit both arms alike, because the order of the arms is drawn by coin: they are noise,
// which the sign test bears. A gap between the arms' clocks may be the candidate's doing and moves the log ratio by its
// own size at most: a gap beyond what A/A sessions show on this machine is a slack that the session must win by.
struct GuardRule {
  bool voids_disturbed = false;  // sign-betting-1
  double max_clock_gap = 0.005, max_steal = 0.05, max_foreign_load = 0.10;
  double usual_clock_gap = 0;  // of A/A sessions on this machine; 0: not known
  double min_effect = 0.01;    // d

  [[nodiscard]] std::vector<GuardLimit> void_limits() const;
  // The gap that costs nothing: usual_clock_gap or max_clock_gap, whichever is larger, and never more than ln(1 + d),
  // so that a gap that was let pass cannot make a slower candidate an accepted one.
  [[nodiscard]] double free_clock_gap() const;
  // Added to the threshold that a session must exceed to count as a win; never negative. Infinite for a gap of NaN or
  // of 1. Looks at guards alone.
  [[nodiscard]] double slack(const std::map<std::string, double>& guards) const;
};

// What the gap between the clocks of two equal arms usually stays below: the 90 % quantile; 0 without a value.
double usual_clock_gap(std::span<const double> gaps);

// The first violated limit as a sentence with its values, or nothing. Guards that were not recorded do not void;
// recorded names without a limit are information only. Never looks at a time of A or B.
std::optional<std::string> void_reason(const std::map<std::string, double>& guards, std::span<const GuardLimit> limits);

// More voids than floor(max_fraction * max_sessions) make a decision AMBIGUOUS: the machine, not the candidate.
bool too_many_voids(int voided, int max_sessions, double max_fraction);

}  // namespace ridge::stats
