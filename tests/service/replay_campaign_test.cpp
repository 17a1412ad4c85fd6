#include "service/replay_campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "propose/request.h"
#include "propose/space.h"

namespace ridge::service {
namespace {

using ::testing::HasSubstr;

ReplayedKernel toy_kernel() {
  const record::ProposalRequest request = propose::toy_request();
  return {"toy.cpp", propose::kToySource, request.space};
}

// Of the configurations that a machine with eight lanes and one thread runs: wide vectors and large tiles are fast, one
// pair of them fails.
record::TuningCache toy_recording() {
  const propose::Space space = *propose::Space::create(propose::toy_request().space);
  record::TuningCache cache;
  cache.problem = "gemm m=64 n=64 k=64";
  cache.parameters = space.points().parameters();
  cache.parameters.front().values.pop_back();
  cache.parameters.back().values.pop_back();
  for (std::uint64_t i = 0; i < space.count(); ++i) {
    const propose::Config config = space.config(i);
    if (config.at("LANES") > 8 || config.at("THREADS") > 1) continue;
    record::TuningRow row;
    row.values = space.points().point(i);
    const auto lanes = static_cast<double>(config.at("LANES"));
    const auto tile = static_cast<double>(config.at("ROWS") * config.at("COLS"));
    row.time = 1e-3 / lanes / (tile / (tile + 4)) * (config.at("PACK") == 1 ? 0.9 : 1);
    row.cost = 1;
    if (config.at("ROWS") == 12 && config.at("COLS") == 2) row.failure = "registers";
    cache.rows.push_back(std::move(row));
  }
  return cache;
}

double fastest_of(const record::TuningCache& cache, const std::vector<std::int64_t>& rows) {
  double fastest = 1;
  for (const std::int64_t row : rows) {
    const record::TuningRow& one = cache.rows[static_cast<std::size_t>(row)];
    if (!one.failed()) fastest = std::min(fastest, one.time);
  }
  return fastest;
}

TEST(ReplayCampaign, ComesToTheFastestWithoutLookingTwice) {
  const record::TuningCache cache = toy_recording();
  std::vector<std::int64_t> all(cache.rows.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  for (int seed = 1; seed <= 3; ++seed) {
    const auto run = replay_campaign(cache, toy_kernel(), seed, 60);
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(run->strategy, "campaign");
    EXPECT_EQ(run->seed, seed);
    EXPECT_EQ(std::set<std::int64_t>(run->rows.begin(), run->rows.end()).size(), run->rows.size());
    EXPECT_LE(fastest_of(cache, run->rows), 1.05 * fastest_of(cache, all));
    const auto again = replay_campaign(cache, toy_kernel(), seed, 60);
    EXPECT_EQ(again->rows, run->rows);
  }
}

TEST(ReplayCampaign, KeepsToTheRecordedValues) {
  record::TuningCache cache = toy_recording();
  std::erase_if(cache.rows, [&](const record::TuningRow& row) { return row.values[1] == 5; });  // 12 rows
  cache.parameters[1].values.pop_back();
  const auto run = replay_campaign(cache, toy_kernel(), 1, 60);
  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_GT(run->rows.size(), 8u);
}

TEST(ReplayCampaign, RefusesARecordingOfAnotherKernel) {
  record::TuningCache cache = toy_recording();
  cache.parameters[1].name = "block_size_x";
  const auto run = replay_campaign(cache, toy_kernel(), 1, 60);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message, HasSubstr("parameter block_size_x"));
}

TEST(ReplayCampaign, BeginsAnywhereThatRuns) {
  record::TuningCache cache = toy_recording();
  std::set<std::int64_t> starts;
  for (std::size_t i = 0; i + 9 < cache.rows.size(); ++i) cache.rows[i].failure = "no";
  for (int seed = 1; seed <= 20; ++seed) {
    const auto run = replay_campaign(cache, toy_kernel(), seed, 1);
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_FALSE(cache.rows[static_cast<std::size_t>(run->rows[0])].failed());
    starts.insert(run->rows[0]);
  }
  EXPECT_GT(starts.size(), 1u);
}

}  // namespace
}  // namespace ridge::service
