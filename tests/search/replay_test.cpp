#include "search/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <set>

#include "search/benchmark.h"

namespace ridge::search {
namespace {

using testing::HasSubstr;

record::SearchParameter powers(const char* name, int count) {
  record::SearchParameter made{name, {}};
  for (int i = 0; i < count; ++i) made.values.push_back({std::exp2(i), {}});
  return made;
}

// Times of a kernel that likes one size of block, hates another one's neighbourhood, and fails where a block is large.
record::TuningCache recorded() {
  record::TuningCache cache{"made", "up", {powers("x", 8), powers("y", 8), powers("tile", 6), powers("unroll", 4)}, {}};
  for (std::uint16_t x = 0; x < 8; ++x) {
    for (std::uint16_t y = 0; y < 8; ++y) {
      for (std::uint16_t tile = 0; tile < 6; ++tile) {
        for (std::uint16_t unroll = 0; unroll < 4; ++unroll) {
          const double threads = x + y - 7.0, reuse = tile - 3.0;
          record::TuningRow row{
              {x, y, tile, unroll},
              1e-3 * std::exp(0.1 * threads * threads + 0.2 * reuse * reuse + 0.05 * x + 0.03 * unroll),
              1};
          if (x + y + tile > 16) {
            row.time = std::numeric_limits<double>::quiet_NaN();
            row.failure = "too many registers";
          }
          cache.rows.push_back(row);
        }
      }
    }
  }
  return cache;
}

// Five times, so that everything can be worked out by hand.
Recording small() {
  record::TuningCache cache{"", "", {powers("a", 5)}, {}};
  for (std::uint16_t i = 0; i < 5; ++i) cache.rows.push_back({{i}, 1.0 + i, 2.0});
  cache.rows[4].time = std::numeric_limits<double>::quiet_NaN();
  cache.rows[4].failure = "failed";
  return *recording_of(cache);
}

TEST(Scale, ExpectsOfRandomSearchWhatIsExact) {
  const Scale scale(small(), {}, 500);
  // Times 1, 2, 3, 4, and a failure that counts as the slowest.
  EXPECT_DOUBLE_EQ(scale.random_after(1), (1 + 2 + 3 + 4 + 4) / 5.0);
  EXPECT_DOUBLE_EQ(scale.random_after(2), (4 * 1 + 3 * 2 + 2 * 3 + 1 * 4) / 10.0);
  EXPECT_DOUBLE_EQ(scale.random_after(5), 1);
}

TEST(Scale, IsOneForTheOptimumAtOnceAndNothingForRandomSearch) {
  const auto recording = recording_of(recorded());
  ASSERT_TRUE(recording);
  const Scale scale(*recording, {}, 500);
  Trace perfect;
  perfect.best = {scale.optimum()};
  perfect.cost = {1};
  EXPECT_DOUBLE_EQ(scale.per_evaluation(perfect), 1);
  EXPECT_NEAR(scale.over_time({perfect, perfect}), 1, 1e-9);
  Trace random;
  for (std::size_t n = 1; n <= scale.evaluations(); ++n) {
    random.best.push_back(scale.random_after(n));
    random.cost.push_back(static_cast<double>(n));
  }
  EXPECT_NEAR(scale.per_evaluation(random), 0, 1e-12);
  const auto row = benchmark(*recording, "random", {400, 1, 500, false});
  ASSERT_TRUE(row);
  EXPECT_LT(row->score_low, 0.02);
  EXPECT_GT(row->score_high, -0.02);
  EXPECT_NEAR(row->score_over_time, 0, 0.25);
}

TEST(Strategy, ProposesEveryConfigurationOnce) {
  const auto recording = recording_of(recorded());
  for (const std::string& name : strategy_names()) {
    // Few enough for the model to be asked to the very end.
    const auto space = Space::of_points({powers("a", 8), powers("b", 5)}, [] {
      std::vector<Point> points;
      for (std::uint16_t a = 0; a < 8; ++a) {
        for (std::uint16_t b = 0; b < 5; ++b) points.push_back({a, b});
      }
      return points;
    }());
    const auto strategy = make_strategy(name, *space, 5);
    std::set<std::uint64_t> seen;
    while (const auto next = (*strategy)->propose()) {
      ASSERT_TRUE(seen.insert(*next).second) << name;
      if (*next % 7 == 0) {
        (*strategy)->observe(*next, std::nullopt);
      } else {
        (*strategy)->observe(*next, 1e-3 * (1 + static_cast<double>(*next % 11)));
      }
    }
    EXPECT_EQ(seen.size(), 40u) << name;
  }
  EXPECT_THAT(make_strategy("annealing", recording->space, 1).error().text(), HasSubstr("known: ours, random, local"));
}

TEST(Strategy, SurvivesASpaceWhereEverythingFails) {
  const auto space = Space::of_points({powers("a", 30)}, [] {
    std::vector<Point> points;
    for (std::uint16_t a = 0; a < 30; ++a) points.push_back({a});
    return points;
  }());
  const auto strategy = make_strategy("ours", *space, 1);
  std::size_t proposed = 0;
  while (const auto next = (*strategy)->propose()) {
    (*strategy)->observe(*next, std::nullopt);
    ++proposed;
  }
  EXPECT_EQ(proposed, 30u);
}

TEST(Tuner, NeedsFewMeasurementsAndAvoidsWhatFails) {
  const auto recording = recording_of(recorded());
  ASSERT_TRUE(recording);
  const BenchmarkOptions options{8, 1, 200, false};
  const auto ours = benchmark(*recording, "ours", options), random = benchmark(*recording, "random", options);
  ASSERT_TRUE(ours && random);
  EXPECT_GT(ours->score_per_evaluation, 0.6);
  ASSERT_TRUE(ours->to_95);
  EXPECT_LE(*ours->to_95, 35);
  // Random search fails as often as the space does.
  EXPECT_LT(ours->failures, 0.5 * static_cast<double>(ours->failing) / static_cast<double>(ours->configurations) *
                                static_cast<double>(ours->evaluations));
  // The same seeds, the same search.
  EXPECT_EQ(ours->curve, benchmark(*recording, "ours", options)->curve);
}

// No proposal waits for a fit: those of 250 measurements took up to a second when they were made at once. Sanitizers
// and slow machines are allowed for.
TEST(Tuner, ProposesQuicklyAmongAMillion) {
  record::SpaceDefinition wide;
  for (int i = 0; i < 8; ++i) wide.parameters.push_back(powers(("p" + std::to_string(i)).c_str(), 6));
  wide.constraints = {"p0 * p1 <= 512", "p2 * p3 <= 512"};
  const auto space = Space::create(wide);
  ASSERT_TRUE(space) << space.error().text();
  ASSERT_GT(space->count(), 1'000'000u);
  const auto strategy = make_strategy("ours", *space, 1);
  std::clock_t longest = 0;
  for (int i = 0; i < 250; ++i) {
    const std::clock_t before = std::clock();
    const auto next = (*strategy)->propose();
    longest = std::max(longest, std::clock() - before);
    ASSERT_TRUE(next);
    double logarithm = 0;
    for (const std::uint16_t value : space->point(*next)) logarithm += 0.05 * std::pow(value - 2.5, 2);
    (*strategy)->observe(*next, std::exp(logarithm));
  }
  EXPECT_LT(static_cast<double>(longest) / CLOCKS_PER_SEC, 0.3);
}

TEST(Tuner, ProposesInSpacesThatCannotBeListed) {
  record::SpaceDefinition huge;
  for (int i = 0; i < 13; ++i) huge.parameters.push_back(powers(("p" + std::to_string(i)).c_str(), 10));
  for (int i = 0; i + 1 < 13; ++i) {
    huge.constraints.push_back("p" + std::to_string(i) + " * p" + std::to_string(i + 1) + " <= 65536");
  }
  const auto space = Space::create(huge);
  ASSERT_TRUE(space) << space.error().text();
  ASSERT_GT(space->count(), 1'000'000'000'000u);
  const auto strategy = make_strategy("ours", *space, 3);
  double first = 0, best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 40; ++i) {
    const auto next = (*strategy)->propose();
    ASSERT_TRUE(next);
    double time = 1e-3;
    for (const std::uint16_t value : space->point(*next)) time *= 1 + 0.1 * std::abs(value - 3.0);
    (*strategy)->observe(*next, time);
    best = std::min(best, time);
    if (i == 9) first = best;
  }
  EXPECT_LT(best, 0.8 * first);
}

}  // namespace
}  // namespace ridge::search
