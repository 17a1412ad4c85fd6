// A busy machine: what a disturbed session may say, and that no disturbance makes false accepts.
#include <gmock/gmock.h>

#include <limits>

#include "simulate.h"
#include "stats/decide.h"
#include "stats/noninferiority.h"
#include "stats/session.h"
#include "stats/summary.h"

namespace ridge::stats {
namespace {

using Guards = std::map<std::string, double>;

TEST(GuardRule, LoadStealAndASmallGapCostNothing) {
  const GuardRule rule;
  const Guards busy = {{"foreign_load", 0.95}, {"steal_fraction", 0.3}, {"clock_gap", 0.004}};
  EXPECT_EQ(rule.slack(busy), 0);
  EXPECT_FALSE(void_reason(busy, rule.void_limits()).has_value());
  EXPECT_TRUE(void_reason({{"throttle", 1}}, rule.void_limits()).has_value());
  EXPECT_TRUE(void_reason({{"missing_samples", 2}}, rule.void_limits()).has_value());
}

TEST(GuardRule, AGapBeyondTheUsualOneIsChargedInFull) {
  GuardRule rule;
  EXPECT_NEAR(rule.slack({{"clock_gap", 0.02}}), -std::log1p(-0.02), 1e-15);
  rule.usual_clock_gap = 0.008;
  EXPECT_EQ(rule.slack({{"clock_gap", 0.008}}), 0);
  EXPECT_GT(rule.slack({{"clock_gap", 0.0081}}), 0.0081);
  // Whatever A/A sessions show: a gap as large as the smallest gain could turn a slower candidate into an accepted one.
  rule.usual_clock_gap = 0.05;
  EXPECT_DOUBLE_EQ(rule.free_clock_gap(), std::log1p(0.01));
  rule.min_effect = 0.002;
  EXPECT_DOUBLE_EQ(rule.free_clock_gap(), std::log1p(0.002));
}

TEST(GuardRule, AGapThatIsNoNumberCannotWin) {
  const GuardRule rule;
  for (const double gap : {std::nan(""), 1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(rule.slack({{"clock_gap", gap}}), std::numeric_limits<double>::infinity()) << gap;
  }
}

TEST(GuardRule, TheFirstRuleStillVoidsAndChargesNothing) {
  GuardRule rule;
  rule.voids_disturbed = true;
  EXPECT_EQ(rule.slack({{"clock_gap", 0.3}}), 0);
  EXPECT_TRUE(void_reason({{"clock_gap", 0.006}}, rule.void_limits()).has_value());
  EXPECT_TRUE(void_reason({{"foreign_load", 0.11}}, rule.void_limits()).has_value());
}

TEST(GuardRule, TheUsualGapIsLearnedFromEqualArms) {
  EXPECT_EQ(usual_clock_gap({}), 0);
  const std::vector<double> gaps = {0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009, 0.010, 0.2};
  EXPECT_DOUBLE_EQ(usual_clock_gap(gaps), 0.010);
}

TEST(Slack, AWinMustExceedTheThresholdByIt) {
  const SequentialRule rule;
  const double slack = 0.05;
  for (const double excess : {-1e-9, 1e-9}) {
    SequentialTest test(rule);
    (void)test.add(rule.threshold() + slack + excess, slack);
    EXPECT_EQ(test.result().wins, excess > 0 ? 1 : 0);
    EXPECT_EQ(test.result().charged, 1);
  }
}

TEST(Slack, ATwelvefoldGainNeedsNoQuietClock) {
  const std::vector<double> ratios(13, std::log(12.5)), slacks(13, 0.3);
  EXPECT_EQ(decide(ratios, SequentialRule{}, slacks).verdict, Verdict::kAccept);
  EXPECT_THAT(decide(ratios, SequentialRule{}, slacks).reason, testing::HasSubstr("13 charged"));
}

TEST(Slack, WidensTheIntervalByItselfInBothDirections) {
  const std::vector<double> values = {0.10, 0.11, 0.12, 0.09, 0.10, 0.13, 0.10, 0.11}, slacks(8, 0.02);
  const Interval narrow = betting_interval(values, 0.95), wide = betting_interval(values, 0.95, slacks);
  EXPECT_DOUBLE_EQ(wide.low, narrow.low - 0.02);
  EXPECT_DOUBLE_EQ(wide.high, narrow.high + 0.02);
  EXPECT_DOUBLE_EQ(wide.confidence, narrow.confidence);
}

TEST(Slack, AShapeIsNeitherClearedNorBlamedWithinIt) {
  const std::vector<double> same(13, 0.0), slower(13, std::log(0.93)), slacks(13, 0.06);
  const auto verdict = [](const std::vector<double>& ratios, const std::vector<double>& by) {
    const ShapeSeries shape{"one", ratios, false, by};
    return test_noninferiority({&shape, 1}).shapes[0].verdict;
  };
  EXPECT_EQ(verdict(same, {}), ShapeVerdict::kNotWorse);
  EXPECT_EQ(verdict(same, slacks), ShapeVerdict::kInconclusive);
  EXPECT_EQ(verdict(slower, {}), ShapeVerdict::kWorse);
  EXPECT_EQ(verdict(slower, slacks), ShapeVerdict::kInconclusive);
}

// A neighbour on the measured processor, a hypervisor that steals, and clocks that differ between the arms.
struct Busy {
  std::string name;
  double load = 0;         // of the measured processor, by a neighbour that comes and goes
  double stay = 0;         // chance that the neighbour's state lasts to the next launch: near 1 is longer than a block
  double steal = 0;        // chance that the hypervisor takes the processor during a launch
  double clock_noise = 0;  // of the gap between the arms' clocks, from session to session, in either direction
  double clock_bias = 0;   // by which the candidate's clock is always faster: its own doing
};

struct Measured {
  double log_ratio = 0;
  Guards guards;
};

// One session of 2 quads of 3 launches of a candidate that is faster by `effect`.
Measured session(Noise& random, const Busy& busy, double effect) {
  bool neighbour = random.uniform() < busy.load;
  const double gap = busy.clock_bias + busy.clock_noise * random.normal();  // log of candidate's over incumbent's clock
  const auto launch = [&](bool candidate) {
    if (random.uniform() >= busy.stay) neighbour = random.uniform() < busy.load;
    double seconds = std::exp(0.01 * random.normal() - (candidate ? effect + gap : 0));
    if (neighbour) seconds *= 1.5 + random.uniform();  // it shares the processor
    if (random.uniform() < busy.steal) seconds += -std::log(random.uniform());
    return seconds;
  };
  ShapeRatios ratios{"one", 1.0, {}};
  for (int quad = 0; quad < 2; ++quad) {
    const std::string_view order = random.coin() ? "ABBA" : "BAAB";
    std::vector<std::vector<double>> blocks(4);
    for (std::size_t b = 0; b < 4; ++b) {
      for (int i = 0; i < 3; ++i) blocks[b].push_back(launch(order[b] == 'B'));
    }
    ratios.log_ratios.push_back(*quad_log_ratio(order, blocks));
  }
  Measured measured;
  measured.log_ratio = session_statistic({&ratios, 1})->suite;
  measured.guards = {{"clock_gap", std::abs(std::expm1(gap + 0.001 * random.normal()))},
                     {"foreign_load", busy.load / 2},
                     {"steal_fraction", busy.steal}};
  return measured;
}

GuardRule rule_of_machine(Noise& random, Busy busy) {
  busy.clock_bias = 0;  // calibration has the same kernel on both arms
  std::vector<double> gaps;
  for (int i = 0; i < 8; ++i) gaps.push_back(session(random, busy, 0).guards.at("clock_gap"));
  GuardRule rule;
  rule.usual_clock_gap = usual_clock_gap(gaps);
  return rule;
}

// Campaigns of 120 decisions among which there was any accept.
int campaigns_with_an_accept(const Busy& busy, double effect, int campaigns, bool charge) {
  Noise random(20261122);
  const SequentialRule rule;
  int found = 0;
  for (int campaign = 0; campaign < campaigns; ++campaign) {
    const GuardRule guards = rule_of_machine(random, busy);
    bool any = false;
    for (int decision = 0; decision < rule.max_decisions; ++decision) {
      SequentialTest test(rule);
      while (test.result().verdict == Verdict::kUndecided) {
        const Measured one = session(random, busy, effect);
        EXPECT_FALSE(void_reason(one.guards, guards.void_limits()).has_value());
        (void)test.add(one.log_ratio, charge ? guards.slack(one.guards) : 0);
      }
      any = any || test.result().verdict == Verdict::kAccept;
    }
    found += any ? 1 : 0;
  }
  return found;
}

std::vector<Busy> machines() {
  return {{"quiet", 0, 0, 0, 0.001, 0},
          {"idle virtual machine", 0, 0, 0.01, 0.004, 0},
          {"half of the time, from launch to launch", 0.5, 0, 0, 0.004, 0},
          {"half of the time, in stretches of blocks", 0.5, 0.9, 0, 0.006, 0},
          {"half of the time, longer than a quad", 0.5, 0.99, 0.05, 0.02, 0},
          {"always", 1, 1, 0.2, 0.02, 0},
          {"steal of 20 %", 0, 0, 0.2, 0.01, 0}};
}

// 5 % of 100 campaigns are 5; 12 or more have a chance of 0.4 %.
constexpr int kCampaigns = 100, kBound = 12;

TEST(BusyMachine, EqualKernelsAreNeverMoreOftenCalledFasterThanTheBound) {
  for (const Busy& busy : machines()) {
    EXPECT_LT(campaigns_with_an_accept(busy, 0, kCampaigns, true), kBound) << busy.name;
  }
}

TEST(BusyMachine, NeitherAreCandidatesAtExactlyTheSmallestGain) {
  for (const Busy& busy : machines()) {
    EXPECT_LT(campaigns_with_an_accept(busy, std::log1p(0.01), kCampaigns, true), kBound) << busy.name;
  }
}

// A candidate that slows the incumbent's clock down is accepted without the charge, and never with it.
TEST(BusyMachine, AClockThatTheCandidateMovesIsNoGain) {
  for (const double bias : {0.02, 0.05, 0.2}) {
    const Busy busy{"biased", 0.5, 0.9, 0.01, 0.003, bias};
    EXPECT_LT(campaigns_with_an_accept(busy, 0, 20, true), 5) << bias;
  }
  EXPECT_EQ(campaigns_with_an_accept({"biased", 0, 0, 0, 0.001, 0.05}, 0, 20, false), 20);
}

TEST(BusyMachine, AGainIsStillFoundOnEveryOne) {
  Noise random(7);
  for (const Busy& busy : machines()) {
    const GuardRule guards = rule_of_machine(random, busy);
    int accepted = 0;
    for (int decision = 0; decision < 200; ++decision) {
      SequentialTest test(SequentialRule{});
      while (test.result().verdict == Verdict::kUndecided) {
        const Measured one = session(random, busy, std::log(3.0));
        (void)test.add(one.log_ratio, guards.slack(one.guards));
      }
      accepted += test.result().verdict == Verdict::kAccept ? 1 : 0;
    }
    EXPECT_GT(accepted, 190) << busy.name;
  }
}

}  // namespace
}  // namespace ridge::stats
