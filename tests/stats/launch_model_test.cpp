// The decision procedure against machines of known noise: a small version of `bench_decisions`, whose result files are
// under bench/results/simulation.
#include "stats/launch_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridge::stats {
namespace {

// Published standard deviations of an ABBA session with Q = 8, m = 5.
TEST(LaunchModel, SessionsAreAsNoisyAsPublished) {
  const double published[] = {0.00222, 0.00527, 0.01019};
  RandomStream random(1);
  const std::vector<NoiseLevel> levels = usual_noise_levels();
  for (std::size_t i = 0; i < levels.size(); ++i) {
    EXPECT_NEAR(simulated_sigma(random, levels[i], 2000) / published[i], 1.0, 0.12) << levels[i].name;
  }
}

// Candidates exactly at the smallest effect are the worst null: half of their sessions win.
TEST(LaunchModel, NullCampaignsAcceptNothing) {
  const SequentialRule rule;
  RandomStream random(2);
  int campaigns_with_false_accept = 0;
  for (const NoiseLevel& level : usual_noise_levels()) {
    for (int campaign = 0; campaign < 8; ++campaign) {
      bool any = false;
      for (int k = 0; k < rule.max_decisions; ++k) {
        const double effect = k % 2 == 0 ? 0.0 : rule.threshold();
        any |= simulate_decision(random, level, effect, rule, {2, 3}).verdict == Verdict::kAccept;
      }
      campaigns_with_false_accept += any ? 1 : 0;
    }
  }
  EXPECT_LE(campaigns_with_false_accept, 4);  // of 24; 5 % of them and three standard deviations
}

TEST(LaunchModel, EffectsTwoSigmaAboveTheMarginAreFound) {
  const SequentialRule rule;
  RandomStream random(3);
  for (const NoiseLevel& level : usual_noise_levels()) {
    const SessionShape shape{2, 3};
    const double sigma = simulated_sigma(random, level, 1000, shape);
    int accepted = 0;
    for (int i = 0; i < 100; ++i) {
      accepted += simulate_decision(random, level, rule.threshold() + 2 * sigma, rule, shape, false).verdict ==
                  Verdict::kAccept;
    }
    EXPECT_GE(accepted, 97) << level.name;
  }
}

}  // namespace
}  // namespace ridge::stats
