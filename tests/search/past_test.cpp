#include "search/past.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "search/benchmark.h"

namespace ridge::search {
namespace {

using testing::HasSubstr;

// A kernel with two parameters, timed by a device; none where it fails.
using Device = std::function<std::optional<double>(double block, double tile)>;

record::TuningCache recorded(const Device& device, const char* second = "tile") {
  record::TuningCache cache{"made", "up", {{"block", {}}, {second, {}}}, {}};
  for (std::uint16_t i = 0; i < 30; ++i) {
    for (record::SearchParameter& parameter : cache.parameters) parameter.values.push_back({1.0 + i, {}});
  }
  for (std::uint16_t block = 0; block < 30; ++block) {
    for (std::uint16_t tile = 0; tile < 30; ++tile) {
      const auto time = device(1.0 + block, 1.0 + tile);
      cache.rows.push_back({{block, tile}, time.value_or(std::numeric_limits<double>::quiet_NaN()), 1});
      if (!time) cache.rows.back().failure = "failed";
    }
  }
  return cache;
}

// Two devices that like nearly the same, in a landscape full of local optima, and one that likes the opposite.
std::optional<double> rough(double block, double tile, double best) {
  if (block * tile > 700) return std::nullopt;
  return 1e-3 * std::exp(0.01 * (std::pow(block - best, 2) + std::pow(tile - best, 2)) + 0.5 * std::sin(7 * block) +
                         0.5 * std::sin(5 * tile));
}
std::optional<double> here(double block, double tile) { return rough(block, tile, 14); }
std::optional<double> there(double block, double tile) {
  const auto time = rough(block, tile, 13);
  return time ? std::optional(20 * *time) : std::nullopt;
}
std::optional<double> opposite(double block, double tile) {
  const auto time = here(block, tile);
  return time ? std::optional(1e-6 / *time) : std::nullopt;
}

record::ReplayRow scored(const std::vector<record::TuningCache>& past) {
  std::vector<PastSource> sources;
  for (const record::TuningCache& one : past) sources.push_back(*PastSource::of(one));
  const auto recording = recording_of(recorded(here));
  return *benchmark(*recording, "ours", {20, 1, 200, false, sources});
}

TEST(Past, KnowsAConfigurationByNamesAndValues) {
  const auto source = PastSource::of(recorded(there));
  ASSERT_TRUE(source) << source.error().text();
  // The same kernel with its parameters in another order, and one value that the source does not have.
  record::SearchParameter tile{"tile", {}}, block{"block", {}}, fixed{"fixed", {{1, {}}}};
  for (const double value : {1.0, 13.0, 13.5, 30.0}) {
    tile.values.push_back({value, {}});
    block.values.push_back({value, {}});
  }
  const auto space = Space::create({{tile, fixed, block}, {}});
  ASSERT_TRUE(source->same_kernel(*space));
  const PastSource::View view = source->view(*space);
  EXPECT_LT(view.value({1, 0, 1}), view.value({0, 0, 1}));
  EXPECT_DOUBLE_EQ(view.value({1, 0, 0}), shown_beyond(std::log(*there(1, 13) / [] {
                     double least = 1e9;
                     for (double b = 1; b <= 30; ++b) {
                       for (double t = 1; t <= 30; ++t) least = std::min(least, there(b, t).value_or(1e9));
                     }
                     return least;
                   }())));
  EXPECT_TRUE(view.failed({3, 0, 3}));
  EXPECT_FALSE(view.failed({1, 0, 1}));
  EXPECT_LT(view.value({2, 0, 2}), view.value({2, 0, 3}));  // by what the values come to on average
}

TEST(Past, OfAnotherDeviceSavesMeasurementsAndIsOverruledWhenWrong) {
  const record::ReplayRow none = scored({}), good = scored({recorded(there)});
  EXPECT_GT(good.score_per_evaluation, none.score_per_evaluation + 0.05);
  ASSERT_TRUE(good.to_95 && none.to_95);
  EXPECT_LT(*good.to_95, *none.to_95);
  // Of two sources one of which is the opposite, the data chooses.
  EXPECT_GT(scored({recorded(there), recorded(opposite)}).score_per_evaluation, none.score_per_evaluation);
  // A past that says the opposite of everything costs some measurements, and not the result.
  EXPECT_GT(scored({recorded(opposite)}).at_50, none.at_50 - 0.05);
}

TEST(Past, OfAnotherKernelIsNotBelievedInAdvance) {
  const record::TuningCache other = recorded(opposite, "unroll");
  const auto source = PastSource::of(other);
  const auto space = recording_of(recorded(here));
  EXPECT_FALSE(source->same_kernel(space->space));
  EXPECT_GT(scored({other}).score_per_evaluation, scored({}).score_per_evaluation - 0.05);
}

TEST(Runs, OfAnotherSearchAreScoredTheSameWay) {
  const auto recording = recording_of(recorded(here));
  ASSERT_TRUE(recording);
  const BenchmarkOptions options{1, 1, 200, false};
  const Scale scale(*recording, {}, 200);
  // The optimum at once: the row of the file, not the number in the space.
  record::TuningRun run{"made", "theirs", 1, {}};
  for (std::size_t row = 0; row < recording->of_row.size(); ++row) {
    if (recording->time[recording->of_row[row]] <= scale.optimum()) run.rows.push_back(static_cast<std::int64_t>(row));
  }
  const auto perfect = benchmark_recorded(*recording, {run}, options);
  ASSERT_TRUE(perfect) << perfect.error().text();
  EXPECT_EQ(perfect->strategy, "theirs");
  EXPECT_DOUBLE_EQ(perfect->score_per_evaluation, 1);
  run.rows.push_back(run.rows[0]);
  EXPECT_THAT(benchmark_recorded(*recording, {run}, options).error().text(), HasSubstr("theirs, seed 1: row"));
  run.rows = {1, 900};
  EXPECT_THAT(benchmark_recorded(*recording, {run}, options).error().text(), HasSubstr("row 900 of 900"));
  run.rows.clear();
  EXPECT_THAT(benchmark_recorded(*recording, {run}, options).error().text(), HasSubstr("no row"));
  EXPECT_THAT(
      record::parse_tuning_runs("{\"recording\":\"a\",\"strategy\":\"b\",\"seed\":1,\"rows\":[1]}\n{}").error().text(),
      HasSubstr("line 2"));
}

}  // namespace
}  // namespace ridge::search
