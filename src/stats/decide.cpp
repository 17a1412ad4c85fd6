#include "stats/decide.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace ridge::stats {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUndecided: return "undecided";
    case Verdict::kAccept: return "accept";
    case Verdict::kReject: return "reject";
  }
  return "undecided";
}

double SequentialRule::threshold() const { return std::log1p(min_effect); }

int SequentialRule::shortest_accept() const {
  const SignBetting start;
  int wins = 1;
  while (start.evidence_after_wins(wins) < needed() && wins < 10000) ++wins;
  return wins;
}

Status validate(const SequentialRule& rule) {
  if (!(rule.min_effect > -1)) return invalid("min_effect = {} must be above -1", rule.min_effect);
  if (!(rule.alpha > 0 && rule.alpha < 1)) return invalid("alpha = {} must be between 0 and 1", rule.alpha);
  if (rule.max_decisions < 1) return invalid("max_decisions = {} must be at least 1", rule.max_decisions);
  const int shortest = rule.shortest_accept();
  if (rule.max_sessions < shortest) {
    return with_hint(invalid("max_sessions = {} cannot reach the evidence {:.0f} that alpha = {} over {} decisions "
                             "needs: it takes {} wins in a row",
                             rule.max_sessions, rule.needed(), rule.alpha, rule.max_decisions, shortest),
                     fmt::format("set max_sessions to {} or more", shortest));
  }
  return ok_status();
}

void SignBetting::add(bool win) {
  for (std::size_t j = 0; j < capital_.size(); ++j) capital_[j] *= win ? 1 + kBetLambdas[j] : 1 - kBetLambdas[j];
  ++sessions_;
  wins_ += win ? 1 : 0;
}

double SignBetting::evidence() const { return evidence_after_wins(0); }

double SignBetting::evidence_after_wins(int more) const {
  double sum = 0;
  for (std::size_t j = 0; j < capital_.size(); ++j) sum += capital_[j] * std::pow(1 + kBetLambdas[j], more);
  return sum;
}

namespace {

// The largest evidence along the way against "the median is `threshold` or below" (above: or above it).
double largest_evidence(std::span<const double> values, double threshold, bool below) {
  SignBetting betting;
  double largest = 1;
  for (const double value : values) {
    betting.add(below ? value >= threshold : value <= threshold);
    largest = std::max(largest, betting.evidence());
  }
  return largest;
}

}  // namespace

Interval betting_interval(std::span<const double> values, double confidence, std::span<const double> slacks) {
  const bool usable =
      !values.empty() && std::none_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
  if (!usable) return {std::nan(""), std::nan(""), 0};
  std::vector<double> lower(values.begin(), values.end()), upper = lower;
  for (std::size_t i = 0; i < std::min(values.size(), slacks.size()); ++i) {
    lower[i] -= slacks[i];
    upper[i] += slacks[i];
  }
  std::vector<double> sorted = lower;
  std::sort(sorted.begin(), sorted.end());
  const double strongest = largest_evidence(lower, sorted.front(), true);  // every session wins
  const double wanted = std::min(2 / (1 - confidence), strongest);
  Interval interval{sorted.front(), 0, std::max(0.0, 1 - 2 / wanted)};
  for (const double value : sorted) {
    if (largest_evidence(lower, value, true) >= wanted) interval.low = value;
  }
  sorted = upper;
  std::sort(sorted.rbegin(), sorted.rend());
  interval.high = sorted.front();
  for (const double value : sorted) {
    if (largest_evidence(upper, value, false) >= wanted) interval.high = value;
  }
  return interval;
}

Verdict SequentialTest::judge() const {
  if (betting_.evidence() >= rule_.needed()) return Verdict::kAccept;
  const int left = rule_.max_sessions - betting_.sessions();
  if (left <= 0 || betting_.evidence_after_wins(left) < rule_.needed()) return Verdict::kReject;
  const bool futile = betting_.sessions() >= rule_.futility_sessions && betting_.evidence() < rule_.futility_evidence;
  return futile ? Verdict::kReject : Verdict::kUndecided;
}

Verdict SequentialTest::add(double log_ratio, double slack) {
  if (verdict_ != Verdict::kUndecided) return verdict_;
  betting_.add(log_ratio > rule_.threshold() + slack);
  charged_ += slack > 0 ? 1 : 0;
  verdict_ = judge();
  return verdict_;
}

SequentialResult SequentialTest::result() const {
  SequentialResult result{.verdict = verdict_,
                          .evidence = betting_.evidence(),
                          .needed = rule_.needed(),
                          .sessions = betting_.sessions(),
                          .wins = betting_.wins(),
                          .charged = charged_,
                          .reason = {}};
  std::string score = fmt::format("{} of {} sessions were more than {:.3g} % faster, evidence {:.4g} of {:.0f}",
                                  result.wins, result.sessions, 100 * rule_.min_effect, result.evidence, result.needed);
  if (charged_ > 0) score += fmt::format(" ({} charged for a gap between the arms' clocks)", charged_);
  const int left = rule_.max_sessions - result.sessions;
  if (verdict_ == Verdict::kAccept) {
    result.reason = score;
  } else if (verdict_ == Verdict::kUndecided) {
    result.reason = fmt::format("{}; {} sessions left", score, left);
  } else if (betting_.evidence_after_wins(left) < rule_.needed()) {
    result.reason = fmt::format("{}, out of reach by {} sessions", score, rule_.max_sessions);
  } else {
    result.reason = fmt::format("{}, below {:.3g} and given up", score, rule_.futility_evidence);
  }
  return result;
}

SequentialResult decide(std::span<const double> session_log_ratios, const SequentialRule& rule,
                        std::span<const double> slacks) {
  SequentialTest test(rule);
  for (std::size_t i = 0; i < session_log_ratios.size(); ++i) {
    if (test.add(session_log_ratios[i], i < slacks.size() ? slacks[i] : 0) != Verdict::kUndecided) break;
  }
  return test.result();
}

bool screened_out(double log_ratio, double min_effect) { return !(log_ratio >= std::log1p(min_effect) / 2); }

}  // namespace ridge::stats
