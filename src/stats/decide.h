// "B is faster than A by at least d", decided session by session with a bound on every mistake of a campaign.
//
// Session i bets on its sign: s_i = +1 if S_i > ln(1 + d), else -1 (ties and NaN lose). The evidence
//   E_t = sum_j w_j prod_{i <= t} (1 + lambda_j s_i),   lambda = (0.5, 0.8, 0.95),  w = (0.2, 0.3, 0.5)
// starts at 1. If the candidate is not faster by d, then P(s_i = +1 | past) <= 1/2, each factor has an expectation of
// at most 1, E is a non-negative supermartingale, and by Ville's inequality P(sup_t E_t >= c) <= 1/c: one may look
// after every session. Accepting at c = K / alpha in at most K decisions bounds the chance of *any* false accept in
// the campaign by alpha (union bound). Nothing is assumed about the noise but the coin: not its shape, not its size.
// A session that was disturbed has a slack c >= 0 and wins only if S_i > ln(1 + d) + c: it then wins in fewer cases, so
// the bound holds whatever c depends on, and it holds for a disturbance that favoured the candidate by up to c.
// K = 120 and alpha = 0.05 need E >= 2400, which takes 13 wins in a row.
#pragma once

#include <array>
#include <span>
#include <string>

#include "ridge/result.h"
#include "stats/summary.h"

namespace ridge::stats {

inline constexpr std::array<double, 3> kBetLambdas = {0.5, 0.8, 0.95};
inline constexpr std::array<double, 3> kBetWeights = {0.2, 0.3, 0.5};

enum class Verdict { kUndecided, kAccept, kReject };
const char* to_string(Verdict verdict);

struct SequentialRule {
  double min_effect = 0.01;        // d, as a fraction: 0.01 asks for more than 1 % faster
  double alpha = 0.05;             // chance of any false accept in the whole campaign
  int max_decisions = 120;         // K
  int max_sessions = 32;           // R_max
  double futility_evidence = 0.1;  // giving up below it, from `futility_sessions` on, cannot cause a false accept
  int futility_sessions = 4;

  [[nodiscard]] double needed() const { return max_decisions / alpha; }
  [[nodiscard]] double threshold() const;  // ln(1 + d)
  // Wins in a row that reach needed(): 13 for the defaults.
  [[nodiscard]] int shortest_accept() const;
};

// Errors: d <= -1, alpha outside (0, 1), K or R_max below 1, or a rule that R_max straight wins cannot satisfy.
Status validate(const SequentialRule& rule);

struct SequentialResult {
  Verdict verdict = Verdict::kUndecided;
  double evidence = 1;
  double needed = 0;
  int sessions = 0;  // used up to the verdict
  int wins = 0;
  int charged = 0;     // sessions with a slack
  std::string reason;  // one sentence with the values
};

// The betting martingale alone: evidence against "P(+1) <= 1/2" from a row of signs.
class SignBetting {
 public:
  void add(bool win);
  [[nodiscard]] double evidence() const;
  // The evidence if the next `more` sessions all won.
  [[nodiscard]] double evidence_after_wins(int more) const;
  [[nodiscard]] int sessions() const { return sessions_; }
  [[nodiscard]] int wins() const { return wins_; }

 private:
  std::array<double, 3> capital_ = kBetWeights;
  int sessions_ = 0, wins_ = 0;
};

// An interval for the median of S that holds however the number of sessions came about: the thresholds that betting on
// the signs (decide.h) refutes in neither direction, each at (1 - confidence) / 2. The ends are sessions' values. With
// too few sessions for that confidence it is the range of all values, with the confidence that this has. The interval
// of stats/summary.h is for a number of sessions that was fixed beforehand; after a test that stops when it has seen
// enough it would promise too much.
// `slacks`, if any, belong to the values in order: a value speaks against a threshold only by more than its slack.
Interval betting_interval(std::span<const double> values, double confidence, std::span<const double> slacks = {});

// The incremental test: one call of add() per valid confirmation session, until the verdict is no longer kUndecided.
class SequentialTest {
 public:
  explicit SequentialTest(SequentialRule rule) : rule_(rule) {}
  // `log_ratio` is SessionStatistic::suite, `slack` what it must exceed the threshold by. After a verdict further
  // sessions are ignored.
  Verdict add(double log_ratio, double slack = 0);
  [[nodiscard]] SequentialResult result() const;

 private:
  [[nodiscard]] Verdict judge() const;

  SequentialRule rule_;
  SignBetting betting_;
  Verdict verdict_ = Verdict::kUndecided;
  int charged_ = 0;
};

// The same as a function of the stored trace: used to replay a decision. Sessions after the verdict are ignored.
// `slacks`: empty for none, else one for each session.
SequentialResult decide(std::span<const double> session_log_ratios, const SequentialRule& rule,
                        std::span<const double> slacks = {});

// Screening by a session whose data are then discarded: S < ln(1 + d) / 2 (or NaN) is SLOWER and not confirmed. A first
// session of a few launches is a glance; a candidate that fails it without being hopeless gets a closer look, whose
// result counts, because the noise of the glance alone would turn away one in ten that are worth confirming.
bool screened_out(double log_ratio, double min_effect);
struct ScreeningLook {
  int quads, launches;
};
inline constexpr ScreeningLook kFirstScreen = {1, 2}, kCloserLook = {2, 5};
inline constexpr double kHopeless = -0.25;  // log ratio below which there is no second look

// What is known when the size of the confirmation sessions is chosen. The statistical validity does not depend on the
// choice (only the sign of a session counts), only the power and the cost do.
struct PlanInput {
  double sigma_session = 0.01;  // noise of S from calibration, of the suite
  int calibration_work = 40;    // Q m of the calibration sessions
  int screening_work = 2;       // Q m of the screening session
  double sigma_shape = 0;       // the noisiest shape's, of the same sessions
  double shape_margin = 0;      // ln(1 + regression) that must be refuted for every shape; 0 = none
  double screened_effect = 0;   // S of the screening session (a log ratio)
  double screened_shape = 0;    // the least of its shapes' log ratios; 0 = not known
  double call_latency = 0;      // seconds of the slower arm's shortest call over the shapes
  double launch_cost = 0;       // seconds that one launch of every shape costs, with inputs and verification
  double session_overhead = 0;  // seconds to start a session
  double budget = 0;            // seconds for this decision; 0 = no limit
  int max_quads = 8, max_launches = 5;
  double session_share = 0.5;  // of the variance at Q m = 40: what more launches cannot average away (process, layout)
};

struct Plan {
  int quads = 8, launches = 5;  // Q and m
  double margin = 0;            // expected (effect - ln(1 + d)) / sigma of such sessions; 2 or more gives short tests
  double session_time = 0;      // seconds
  double decision_time = 0;     // seconds if every session wins
  bool within_budget = true;
  std::string reason;
};

// Chooses Q in 1..max_quads and m in {3, 4, 5}, the cheapest whose expected margin is at least 3 (and in which a shape
// of unchanged speed is 2 sigma from the regression to be refuted), otherwise the full block. The variance model is
// sigma^2 (share + (1 - share) * 40 / (Q m)), scaled to what calibration measured with its own Q m; the screened effect
// is first reduced by one sigma of the screening session, because it was selected for being large. m = 1 is used
// when the effect is above 3x and a call takes over 20 ms (one launch is then cleaner than the difference is small).
// If a decision would not fit the budget, the block is cut to what fits, but never below Q = 1, m = 3 (or 1 as above).
// More noise never gives a smaller block, a larger effect or a smaller budget never a larger one.
Plan plan_sessions(const PlanInput& input, const SequentialRule& rule);

}  // namespace ridge::stats
