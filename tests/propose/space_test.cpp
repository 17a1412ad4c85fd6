#include "propose/space.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "propose/request.h"

namespace ridge::propose {
namespace {

record::Tunable tunable(std::string name, std::vector<std::int64_t> values, std::string needs = {}) {
  record::Tunable t;
  t.name = std::move(name);
  t.default_value = values.front();
  t.values = std::move(values);
  t.needs = std::move(needs);
  return t;
}

Space make(record::TuneSpace declared) {
  auto space = Space::create(std::move(declared));
  EXPECT_TRUE(space.ok()) << (space.ok() ? "" : space.error().text());
  return *space;
}

TEST(Space, CountsValidConfigurationsExactly) {
  record::TuneSpace declared;
  for (const char* name : {"A", "B", "C", "D"}) declared.tunables.push_back(tunable(name, {1, 2, 3, 4, 5, 6}));
  declared.constraints = {{"A * B <= 12", "x"}, {"C % 2 == 0 || C == 1", "y"}};
  // Pairs with a product of at most 12: 6 + 6 + 4 + 3 + 2 + 2 = 23; C in {1, 2, 4, 6}; D free.
  EXPECT_EQ(make(declared).count(), 23u * 4u * 6u);
  EXPECT_EQ(make(declared).vary(make(declared).defaults(), {"A", "B", "C", "D"}).size(), 23u * 4u * 6u);
}

TEST(Space, MultipliesPartsThatNoConstraintConnects) {
  // Forty free tunables: counting must not enumerate their 2^40 combinations.
  record::TuneSpace declared;
  for (int i = 0; i < 40; ++i) declared.tunables.push_back(tunable(fmt::format("T{}", i), {0, 1}));
  declared.constraints = {{"T0 + T1 == 1", "one of the two"}};
  EXPECT_EQ(make(declared).count(), 2u * (std::uint64_t{1} << 38));
}

TEST(Space, RefusesWithTheExpressionTheValuesAndTheReason) {
  record::TuneSpace declared;
  declared.tunables = {tunable("MR", {1, 8, 14}), tunable("NR", {1, 4})};
  declared.constraints = {{"MR * NR <= 28", "accumulators must fit the registers"}};
  const Space space = make(declared);
  EXPECT_TRUE(space.check({{"MR", 14}}).ok());
  const auto both = space.check({{"MR", 14}, {"NR", 4}});
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().message, "MR=14 NR=4 violates \"MR * NR <= 28\": accumulators must fit the registers");
  EXPECT_EQ(space.check({{"MR", 3}}).error().message, "MR=3 is not one of its declared values 1, 8, 14");
  EXPECT_EQ(space.check({{"XX", 3}}).error().message, "XX is not a tunable of this source");
}

TEST(Space, NamesTheExpressionItCannotRead) {
  record::TuneSpace declared;
  declared.tunables = {tunable("MR", {1})};
  declared.constraints = {{"MR * QQ <= 28", ""}};
  auto unknown = Space::create(declared);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message, "constraint \"MR * QQ <= 28\": QQ is no parameter and no value");
  declared.constraints = {{"MR * * 2", ""}};
  auto broken = Space::create(declared);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("MR * * 2"), std::string::npos);
}

TEST(Space, ATunableWithoutEffectHasItsDefault) {
  record::TuneSpace declared;
  declared.tunables = {tunable("V", {1, 8}), tunable("P", {0, 1}, "V > 1"), tunable("Q", {0, 1}, "P == 1")};
  const Space space = make(declared);
  EXPECT_EQ(space.complete({{"P", 1}, {"Q", 1}}), (Config{{"V", 1}, {"P", 0}, {"Q", 0}}));
  EXPECT_EQ(space.complete({{"V", 8}, {"Q", 1}}), (Config{{"V", 8}, {"P", 0}, {"Q", 0}}));
  EXPECT_EQ(space.neighbours(space.defaults()).size(), 1u);  // V = 8 alone
  EXPECT_EQ(space.vary(space.defaults(), {"V", "P", "Q"}).size(), 4u);
}

TEST(Space, NeighboursAndNumberedConfigurationsAreValid) {
  const Space space = make(toy_request().space);
  Random random(7);
  std::set<Config> distinct;
  for (int i = 0; i < 300; ++i) {
    const Config config = space.config(random.next() % space.count());
    ASSERT_TRUE(space.check(config).ok()) << to_text(config);
    distinct.insert(config);
    EXPECT_EQ(space.config(*space.number(config)), config);
    for (const Config& other : space.neighbours(config)) {
      ASSERT_TRUE(space.check(other).ok());
      ASSERT_NE(other, config);
    }
  }
  EXPECT_GT(distinct.size(), 60u);
}

}  // namespace
}  // namespace ridge::propose
