#include "stats/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "simulate.h"

namespace ridge::stats {
namespace {

using ::testing::HasSubstr;

SequentialResult simulate(Noise& noise, double standardised_effect, const SequentialRule& rule) {
  SequentialTest test(rule);
  const double sigma = 0.004;
  while (test.add(rule.threshold() + sigma * (standardised_effect + noise.normal())) == Verdict::kUndecided) {
  }
  return test.result();
}

struct Rates {
  double accept = 0, mean_sessions = 0;
};

// With futility off, as in the published table.
Rates simulate_many(double standardised_effect, int runs, std::uint64_t seed) {
  SequentialRule rule;
  rule.futility_evidence = 0;
  Noise noise(seed);
  Rates rates;
  for (int i = 0; i < runs; ++i) {
    const SequentialResult result = simulate(noise, standardised_effect, rule);
    rates.accept += result.verdict == Verdict::kAccept ? 1.0 / runs : 0;
    rates.mean_sessions += static_cast<double>(result.sessions) / runs;
  }
  return rates;
}

TEST(Decide, ThirteenWinsInARowAreTheShortestAccept) {
  const SequentialRule rule;
  EXPECT_EQ(rule.needed(), 2400);
  EXPECT_EQ(rule.shortest_accept(), 13);
  const std::vector<double> twelve(12, 0.02), thirteen(13, 0.02);
  EXPECT_EQ(decide(twelve, rule).verdict, Verdict::kUndecided);
  const SequentialResult result = decide(thirteen, rule);
  EXPECT_EQ(result.verdict, Verdict::kAccept);
  EXPECT_NEAR(result.evidence, 0.2 * std::pow(1.5, 13) + 0.3 * std::pow(1.8, 13) + 0.5 * std::pow(1.95, 13), 1e-6);
  EXPECT_THAT(result.reason, HasSubstr("13 of 13 sessions were more than 1 % faster"));
}

TEST(Decide, AStricterAlphaNeedsFifteen) {
  SequentialRule rule;
  rule.alpha = 0.01;
  EXPECT_EQ(rule.shortest_accept(), 15);
}

TEST(Decide, TiesAndNanLose) {
  const SequentialRule rule;
  SequentialTest tie(rule), nan(rule);
  tie.add(rule.threshold());
  nan.add(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(tie.result().wins, 0);
  EXPECT_EQ(nan.result().wins, 0);
  EXPECT_LT(tie.result().evidence, 1);
}

TEST(Decide, EarlyLossesAreFutile) {
  const std::vector<double> losses(32, -0.01);
  const SequentialResult result = decide(losses, {});
  EXPECT_EQ(result.verdict, Verdict::kReject);
  EXPECT_EQ(result.sessions, 4);
  EXPECT_THAT(result.reason, HasSubstr("given up"));
}

TEST(Decide, StopsWhenTheEvidenceIsOutOfReach) {
  SequentialRule rule;
  rule.futility_evidence = 0;
  std::vector<double> mixed;
  for (int i = 0; i < 32; ++i) mixed.push_back(i % 2 == 0 ? 0.02 : 0.0);
  const SequentialResult result = decide(mixed, rule);
  EXPECT_EQ(result.verdict, Verdict::kReject);
  EXPECT_LT(result.sessions, 32);
  EXPECT_THAT(result.reason, HasSubstr("out of reach by 32 sessions"));
}

TEST(Decide, SessionsAfterTheVerdictChangeNothing) {
  std::vector<double> trace(13, 0.02);
  const double evidence = decide(trace, {}).evidence;
  trace.insert(trace.end(), 19, -1.0);
  EXPECT_EQ(decide(trace, {}).verdict, Verdict::kAccept);
  EXPECT_EQ(decide(trace, {}).evidence, evidence);
  EXPECT_EQ(decide(trace, {}).sessions, 13);
}

TEST(Decide, TheVerdictIsAFunctionOfTheTrace) {
  Noise noise(1);
  for (int run = 0; run < 200; ++run) {
    SequentialTest test({});
    std::vector<double> trace;
    do trace.push_back(0.012 + 0.004 * noise.normal());
    while (test.add(trace.back()) == Verdict::kUndecided);
    const SequentialResult replayed = decide(trace, {});
    EXPECT_EQ(replayed.verdict, test.result().verdict);
    EXPECT_EQ(replayed.evidence, test.result().evidence);
    EXPECT_EQ(replayed.sessions, static_cast<int>(trace.size()));
  }
}

TEST(Decide, EveryTestEndsByTheLastSession) {
  Noise noise(2);
  for (int run = 0; run < 2000; ++run) EXPECT_LE(simulate(noise, noise.normal(), {}).sessions, 32);
}

TEST(Decide, SwappingTheArmsNeverAcceptsBothWays) {
  Noise noise(3);
  for (int run = 0; run < 500; ++run) {
    std::vector<double> trace, swapped;
    for (int i = 0; i < 32; ++i) trace.push_back(0.02 * noise.normal() + 0.03 * noise.uniform());
    for (const double s : trace) swapped.push_back(-s);
    EXPECT_FALSE(decide(trace, {}).verdict == Verdict::kAccept && decide(swapped, {}).verdict == Verdict::kAccept);
  }
}

// The expectation of the next factor under a fair coin is exactly 1, for every component: a martingale.
TEST(Ville, EvidenceIsAMartingaleUnderAFairCoin) {
  Noise noise(4);
  for (int run = 0; run < 100; ++run) {
    SignBetting betting;
    for (int i = 0; i < 20; ++i) {
      SignBetting up = betting, down = betting;
      up.add(true);
      down.add(false);
      EXPECT_NEAR((up.evidence() + down.evidence()) / 2, betting.evidence(), 1e-9 * betting.evidence());
      betting.add(noise.coin());
    }
  }
}

// The chance that a fair coin ever reaches c within 32 flips, computed exactly over all paths (evidence depends on the
// number of wins only), is at most 1/c for every c.
TEST(Ville, ExactCrossingProbabilityIsBelowTheBound) {
  constexpr int kSessions = 32;
  for (const double level : {2.0, 20.0, 100.0, 2400.0, 12000.0}) {
    std::vector<double> alive(kSessions + 2, 0.0);
    alive[0] = 1;
    double crossed = 0;
    for (int t = 1; t <= kSessions; ++t) {
      std::vector<double> next(alive.size(), 0.0);
      for (int wins = 0; wins < t; ++wins) {
        next[static_cast<std::size_t>(wins)] += alive[static_cast<std::size_t>(wins)] / 2;
        next[static_cast<std::size_t>(wins + 1)] += alive[static_cast<std::size_t>(wins)] / 2;
      }
      for (int wins = 0; wins <= t; ++wins) {
        SignBetting betting;
        for (int i = 0; i < t; ++i) betting.add(i < wins);
        if (betting.evidence() < level) continue;
        crossed += next[static_cast<std::size_t>(wins)];
        next[static_cast<std::size_t>(wins)] = 0;
      }
      alive = next;
    }
    EXPECT_LE(crossed, 1 / level) << level;
    EXPECT_GT(crossed, 0) << level;
    if (level == 2400.0) {
      EXPECT_NEAR(crossed, 2.0e-4, 0.3e-4);  // the published level at the worst null
    }
  }
}

// Published: (effect - threshold) / sigma -> accept probability and mean sessions, R_max = 32.
TEST(Power, MatchesThePublishedTable) {
  const struct {
    double effect, accept, sessions;
  } rows[] = {{0.5, 0.040, 15.8}, {1.0, 0.52, 21.6}, {1.5, 0.96, 18.1}, {2.0, 0.9996, 14.6}, {3.0, 1.0, 13.1}};
  for (const auto& row : rows) {
    const Rates rates = simulate_many(row.effect, 20000, 5);
    const double error = 4 * std::sqrt(row.accept * (1 - row.accept) / 20000) + 0.006;
    EXPECT_NEAR(rates.accept, row.accept, error) << row.effect;
    EXPECT_NEAR(rates.mean_sessions, row.sessions, 0.2) << row.effect;
  }
}

TEST(Power, FutilityCostsLittle) {
  Noise noise(6);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) accepted += simulate(noise, 1.5, {}).verdict == Verdict::kAccept ? 1 : 0;
  EXPECT_GT(accepted, 0.93 * 5000);
}

TEST(Power, WorstNullIsAcceptedRarely) {
  Noise noise(7);
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) accepted += simulate(noise, 0, {}).verdict == Verdict::kAccept ? 1 : 0;
  EXPECT_LE(accepted, 83 + 4 * 9);  // 200000 * alpha, alpha = 4.17e-4, and four standard deviations
}

TEST(Power, WholeCampaignsOfNullsStayBelowAlpha) {
  Noise noise(8);
  int with_false_accept = 0;
  for (int campaign = 0; campaign < 400; ++campaign) {
    bool any = false;
    for (int k = 0; k < 120; ++k) any |= simulate(noise, 0, {}).verdict == Verdict::kAccept;
    with_false_accept += any ? 1 : 0;
  }
  EXPECT_LE(with_false_accept, 20 + 4 * 5);  // 5 % of 400, and four standard deviations
}

TEST(Rule, ImpossibleRulesAreRefusedWithTheWayOut) {
  SequentialRule rule;
  rule.max_sessions = 12;
  const Status status = validate(rule);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text(), HasSubstr("set max_sessions to 13 or more"));
  EXPECT_TRUE(validate({}).ok());
  EXPECT_FALSE(validate({.alpha = 0}).ok());
  EXPECT_FALSE(validate({.max_decisions = 0}).ok());
  EXPECT_FALSE(validate({.min_effect = std::numeric_limits<double>::quiet_NaN()}).ok());
}

TEST(Screening, KeepsWhatIsAtLeastHalfTheEffect) {
  EXPECT_TRUE(screened_out(0.0, 0.01));
  EXPECT_TRUE(screened_out(std::log(1.01) / 2 - 1e-12, 0.01));
  EXPECT_FALSE(screened_out(std::log(1.01) / 2, 0.01));
  EXPECT_TRUE(screened_out(std::numeric_limits<double>::quiet_NaN(), 0.01));
}

// The interval must hold although the test chose when to stop: that is when a fixed-sample interval breaks.
TEST(BettingInterval, CoversTheTruthWhereverTheTestStops) {
  Noise noise(21);
  const SequentialRule rule;
  for (const double truth : {0.012, 0.02, 0.05}) {
    int covered = 0;
    constexpr int kRuns = 2000;
    for (int run = 0; run < kRuns; ++run) {
      SequentialTest test(rule);
      std::vector<double> sessions;
      do sessions.push_back(truth + 0.006 * noise.heavy());
      while (test.add(sessions.back()) == Verdict::kUndecided);
      const Interval interval = betting_interval(sessions, 0.95);
      covered += interval.low <= truth && truth <= interval.high ? 1 : 0;
      if (sessions.size() >= 13) {
        EXPECT_GE(interval.confidence, 0.949);
      }
    }
    // A few sessions cannot carry 95 %; their intervals say so with a smaller confidence. Accepts have 13 or more.
    EXPECT_GE(covered, static_cast<int>(kRuns * (truth > 0.015 ? 0.95 : 0.80))) << truth;
  }
}

TEST(BettingInterval, IsTheRangeWithItsConfidenceWhenThereIsLittle) {
  const Interval three = betting_interval(std::vector<double>{0.01, 0.03, 0.02}, 0.95);
  EXPECT_EQ(three.low, 0.01);
  EXPECT_EQ(three.high, 0.03);
  EXPECT_LT(three.confidence, 0.80);
  EXPECT_EQ(betting_interval({}, 0.95).confidence, 0);
  const Interval same = betting_interval(std::vector<double>(20, 0.02), 0.95);
  EXPECT_EQ(same.low, 0.02);
  EXPECT_EQ(same.high, 0.02);
}

PlanInput cpu_machine(double sigma, double effect) {
  return {.sigma_session = sigma,
          .screened_effect = std::log(effect),
          .call_latency = 0.002,
          .launch_cost = 0.004,
          .session_overhead = 0.1};
}

TEST(Plan, AThreefoldEffectNeedsOneQuadOfThree) {
  const Plan plan = plan_sessions(cpu_machine(0.015, 3.0), {});
  EXPECT_EQ(plan.quads, 1);
  EXPECT_EQ(plan.launches, 3);
  EXPECT_THAT(plan.reason, HasSubstr("Q = 1, m = 3"));
}

TEST(Plan, ATwoPercentEffectNeedsTheFullBlock) {
  const Plan plan = plan_sessions(cpu_machine(0.01, 1.02), {});
  EXPECT_EQ(plan.quads, 8);
  EXPECT_EQ(plan.launches, 5);
}

TEST(Plan, OneLaunchOnlyForLongCallsAndHugeEffects) {
  PlanInput input = cpu_machine(0.015, 3.5);
  EXPECT_EQ(plan_sessions(input, {}).launches, 3);
  input.call_latency = 0.05;
  EXPECT_EQ(plan_sessions(input, {}).launches, 1);
  input.screened_effect = std::log(2.5);
  EXPECT_EQ(plan_sessions(input, {}).launches, 3);
}

TEST(Plan, BudgetCutsTheBlockAndSaysSo) {
  PlanInput input = cpu_machine(0.01, 1.02);
  input.budget = 5;
  const Plan plan = plan_sessions(input, {});
  EXPECT_LT(plan.quads * plan.launches, 40);
  EXPECT_LE(plan.decision_time, 5);
  EXPECT_TRUE(plan.within_budget);
  EXPECT_THAT(plan.reason, HasSubstr("cut to the budget of 5 s"));
  input.budget = 0.1;
  const Plan tiny = plan_sessions(input, {});
  EXPECT_EQ(tiny.quads * tiny.launches, 3);
  EXPECT_FALSE(tiny.within_budget);
}

// The noise that calibration measured is that of its own sessions.
TEST(Plan, NoiseOfSmallCalibrationSessionsCountsLess) {
  PlanInput input = cpu_machine(0.03, 1.25);
  const Plan full = plan_sessions(input, {});
  input.calibration_work = 3;
  const Plan small = plan_sessions(input, {});
  EXPECT_LT(small.quads * small.launches, full.quads * full.launches);
}

TEST(Plan, ANoisyShapeAsksForMoreLaunchesThanTheSuite) {
  PlanInput input = cpu_machine(0.005, 1.5);
  EXPECT_EQ(plan_sessions(input, {}).quads, 1);
  input.sigma_shape = 0.03;
  input.shape_margin = std::log(1.05);
  EXPECT_GT(plan_sessions(input, {}).quads, 1);
}

TEST(Plan, IsMonotone) {
  const auto work = [](const PlanInput& input) {
    const Plan plan = plan_sessions(input, {});
    return plan.quads * plan.launches;
  };
  Noise noise(9);
  for (int run = 0; run < 3000; ++run) {
    PlanInput input = cpu_machine(0.03 * noise.uniform(), 1 + 4 * noise.uniform() * noise.uniform());
    input.call_latency = 0.04 * noise.uniform();
    input.budget = noise.coin() ? 0 : 20 * noise.uniform();
    PlanInput noisier = input, larger = input, richer = input;
    noisier.sigma_session *= 1.5;
    larger.screened_effect *= 1.5;
    richer.budget = input.budget * 2;
    EXPECT_GE(work(noisier), work(input));
    EXPECT_LE(work(larger), work(input));
    EXPECT_GE(work(richer), work(input));
  }
}

}  // namespace
}  // namespace ridge::stats
