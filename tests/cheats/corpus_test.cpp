// Every cheat is caught by the defence its file names, and every honest kernel passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "cheats/corpus.h"

namespace ridge::cheats {

void PrintTo(const Item& item, std::ostream* out) { *out << item.name; }

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string name_of(const ::testing::TestParamInfo<Item>& info) { return info.param.name; }

std::vector<Item> items(bool honest) {
  std::vector<Item> chosen;
  std::copy_if(corpus().begin(), corpus().end(), std::back_inserter(chosen),
               [honest](const Item& item) { return item.honest == honest; });
  return chosen;
}

class Cheat : public ::testing::TestWithParam<Item> {};
INSTANTIATE_TEST_SUITE_P(Corpus, Cheat, ::testing::ValuesIn(items(false)), name_of);

TEST_P(Cheat, IsCaughtByItsGate) {
  const Item& item = GetParam();
  if (const std::string why = missing(item); !why.empty()) GTEST_SKIP() << why;
  const record::CheckRow row = check(item);
  EXPECT_EQ(record::name_of(row.outcome), record::name_of(item.outcome)) << row.detail;
  std::vector<std::string_view> expected;
  for (const record::Defence gate : item.shows) expected.push_back(record::name_of(gate));
  EXPECT_THAT(expected, Contains(record::name_of(row.gate))) << row.detail;
  EXPECT_THAT(row.detail, HasSubstr(item.says));
}

class Honest : public ::testing::TestWithParam<Item> {};
INSTANTIATE_TEST_SUITE_P(Corpus, Honest, ::testing::ValuesIn(items(true)), name_of);

TEST_P(Honest, Passes) {
  const record::CheckRow row = check(GetParam());
  EXPECT_EQ(row.outcome, record::Outcome::kPass) << record::name_of(row.gate) << ": " << row.detail;
  EXPECT_TRUE(row.informative);
  EXPECT_GT(row.verified_calls, 10);
  auto lanes = row.lanes;
  EXPECT_EQ(lanes["sanitizer"], "clean");
  EXPECT_EQ(lanes["rerun"] == "same bits", GetParam().name != "changing_order") << lanes["rerun"];
}

TEST(Corpus, HoldsAtLeast35CheatsAnd12HonestKernels) {
  EXPECT_GE(items(false).size(), 35u);
  EXPECT_GE(items(true).size(), 12u);
}

}  // namespace
}  // namespace ridge::cheats
