#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "base/error.h"
#include "measure/ceilings.h"
#include "measure/machine.h"
#include "measure/quads.h"

namespace ridge::measure {
namespace {

TEST(Quads, RunInTheOrderTheyRecord) {
  Coin coin(7);
  std::string ran;
  const auto quads = run_quads(
      [&](Arm arm) -> Result<double> {
        ran += arm == Arm::kIncumbent ? 'A' : 'B';
        return static_cast<double>(ran.size());
      },
      20, 2, coin);
  ASSERT_TRUE(quads.ok());
  std::string recorded;
  std::set<std::string> orders;
  for (const record::Quad& quad : *quads) {
    orders.insert(quad.order);
    ASSERT_EQ(quad.blocks.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(quad.blocks[i].size(), 2u);
      recorded += std::string(2, quad.order[i]);
    }
  }
  EXPECT_EQ(ran, recorded);
  EXPECT_EQ(orders, (std::set<std::string>{"ABBA", "BAAB"}));
}

TEST(Quads, EndAtTheFirstFailingLaunch) {
  Coin coin(1);
  int launches = 0;
  const auto quads = run_quads(
      [&](Arm) -> Result<double> {
        if (++launches == 5) return make_error(ErrorCode::kToolFailed, "fifth");
        return 1.0;
      },
      4, 1, coin);
  ASSERT_FALSE(quads.ok());
  EXPECT_EQ(launches, 5);
}

TEST(Coin, IsFairEnoughAndDiffersEveryTime) {
  Coin coin;
  int heads = 0;
  for (int i = 0; i < 4000; ++i) heads += coin.flip() ? 1 : 0;
  EXPECT_NEAR(heads, 2000, 200);  // 6 sigma
  EXPECT_NE(Coin().next(), Coin().next());
}

TEST(Placement, KeepsTheHarnessOffTheMeasuredProcessors) {
  const auto spare = place(1, {2, 5});
  ASSERT_TRUE(spare.ok());
  EXPECT_EQ(spare->measured, std::vector<int>{2});
  EXPECT_EQ(spare->harness, std::vector<int>{5});
  EXPECT_FALSE(spare->shared());
  EXPECT_TRUE(place(2, {2, 5})->shared());
  EXPECT_TRUE(place(1, {2})->shared());
  EXPECT_FALSE(place(3, {2, 5}).ok());
  EXPECT_FALSE(place(0, {2, 5}).ok());
}

TEST(Machine, CountsProcessorTimeOfThisProcess) {
  const CpuAccount before = read_cpu_account();
  const std::clock_t end =
      std::clock() + CLOCKS_PER_SEC / 20;  // of this process: on a busy machine a wall clock runs ahead
  while (std::clock() < end) dependent_chain(40000);
  const CpuAccount after = read_cpu_account();
  EXPECT_GT(after.own - before.own, 0.02);
  EXPECT_GE(after.total, before.total);
  EXPECT_GT(process_cpu_seconds(::getpid()), 0.0);
  const StretchGuards guards = guards_between(before, after, 0);
  EXPECT_GE(guards.foreign_load, 0.0);
  EXPECT_LE(guards.foreign_load, 1.0);
}

TEST(Machine, EvictsWithoutChangingMemory) {
  std::vector<unsigned char> bytes(1 << 16);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  const std::vector<unsigned char> copy = bytes;
  evict(bytes.data() + 3, bytes.size() - 5);
  EXPECT_EQ(bytes, copy);
}

TEST(Ceilings, ArePositiveAndInOrder) {
  const auto ceilings = measure_ceilings({.threads = 1, .seconds = 0.02}, {});
  ASSERT_TRUE(ceilings.ok());
  std::map<std::string, double> value, best;
  for (const record::Ceiling& ceiling : *ceilings) {
    EXPECT_GE(ceiling.samples.size(), 5u) << ceiling.name;
    value[ceiling.name] = ceiling.value;
    best[ceiling.name] = *std::max_element(ceiling.samples.begin(), ceiling.samples.end());
  }
  // A vector holds twice as many floats as doubles; half of that allows for noise.
  EXPECT_GT(value["fma_f32"], 1.3 * value["fma_f64"]);
  EXPECT_GE(value["fma_bf16"], 0.99 * value["fma_f32"]);
  EXPECT_GT(value["read_bandwidth"], 1e8);
  for (const char* stream : {"read", "write", "copy", "triad"}) {
    EXPECT_GT(value[std::string(stream) + "_bandwidth"], 0) << stream;
    EXPECT_GT(value[std::string(stream) + "_bandwidth_warm"], 0) << stream;
  }
  // A cache against memory; a neighbour may hold up either for most of these few milliseconds, not for all of them.
  EXPECT_GT(best["read_bandwidth_warm"], value["read_bandwidth"]);
  EXPECT_FALSE(measure_ceilings({.threads = 4096}, {}).ok());
}

}  // namespace
}  // namespace ridge::measure
