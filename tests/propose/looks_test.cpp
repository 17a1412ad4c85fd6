#include "propose/looks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "propose/model.h"
#include "propose/request.h"

namespace ridge::propose {
namespace {

class ChooseLooks : public ::testing::Test {
 protected:
  ChooseLooks() : machine_(describe_machine(toy_request())) {
    all_ = space_.vary(space_.complete({{"LANES", 16}}), {"ROWS", "COLS"});
  }
  // As if the incumbent and these had been looked at.
  static Past past_of(std::vector<Look> looks) {
    Past past;
    past.time = 1;
    past.looks = std::move(looks);
    for (const Look& one : past.looks) past.seen.insert(one.config);
    return past;
  }
  std::vector<Config> unseen(const Past& past) const {
    std::vector<Config> left = all_;
    std::erase_if(left, [&](const Config& one) { return past.seen.contains(one); });
    return left;
  }

  Space space_ = *Space::create(toy_request().space);
  Machine machine_;
  std::vector<Config> all_;
};

TEST_F(ChooseLooks, BeginsWithWhatTheCostModelPromisesMost) {
  const Looks looks = choose_looks(space_, machine_, {}, {}, all_, 5, 1);
  ASSERT_EQ(looks.configs.size(), 5u);
  EXPECT_FALSE(looks.outlook);
  for (const Config& one : all_) {
    EXPECT_LE(score_of(space_, one, machine_), score_of(space_, looks.configs[0], machine_)) << to_text(one);
  }
}

TEST_F(ChooseLooks, ChoosesEachOnceAndOnlyFromWhatIsOffered) {
  for (const std::size_t size : {1u, 7u, 100u}) {
    const Looks looks = choose_looks(space_, machine_, {}, {}, all_, size, 3);
    const std::set<Config> distinct(looks.configs.begin(), looks.configs.end());
    EXPECT_EQ(looks.configs.size(), std::min(size, all_.size()));
    EXPECT_EQ(distinct.size(), looks.configs.size());
    for (const Config& one : distinct) EXPECT_TRUE(std::ranges::count(all_, one)) << to_text(one);
  }
  EXPECT_TRUE(choose_looks(space_, machine_, {}, {}, {}, 5, 1).configs.empty());
}

// A round may have looked at all that a direction has, and not been measured: its configurations are offered again.
TEST_F(ChooseLooks, OffersTheFastestAgainWhereAllWereLookedAt) {
  const std::vector<Config> three = {all_[2], all_[5], all_[8]};
  Past past;
  past.time = 1;
  past.looks = {{all_[2], 1.5}, {all_[5], std::nullopt}, {all_[8], 0.9}};
  EXPECT_EQ(choose_looks(space_, machine_, past, {}, three, 2, 1).configs, (std::vector<Config>{all_[8], all_[2]}));
  EXPECT_EQ(choose_looks(space_, machine_, past, {}, {all_[5]}, 2, 1).configs, std::vector<Config>{all_[5]});
}

TEST_F(ChooseLooks, IsTheSameForTheSameSeed) {
  const Past past = past_of({{all_[3], 1.0}, {all_[9], 2.0}});
  const auto chosen = [&](std::uint64_t seed) {
    return choose_looks(space_, machine_, past, {}, unseen(past), 6, seed).configs;
  };
  EXPECT_EQ(chosen(5), chosen(5));
}

// The cost model likes large tiles. On this machine only small ones are fast.
TEST_F(ChooseLooks, DataOverrulesTheCostModel) {
  const auto time = [](const Config& config) {
    return std::exp(0.4 * std::log(static_cast<double>(config.at("ROWS") * config.at("COLS"))));
  };
  std::vector<Look> looks;
  for (int round = 0; round < 2; ++round) {
    const Past past = past_of(looks);
    for (const Config& one : choose_looks(space_, machine_, past, {}, unseen(past), 5, 1).configs) {
      looks.push_back({one, time(one)});
    }
  }
  const Past past = past_of(looks);
  const Looks next = choose_looks(space_, machine_, past, {}, unseen(past), 3, 1);
  double fastest = std::numeric_limits<double>::infinity();
  for (const Look& one : looks) fastest = std::min(fastest, *one.time);
  for (const Config& one : next.configs) fastest = std::min(fastest, time(one));
  EXPECT_DOUBLE_EQ(fastest, 1) << "one row and one column are the fastest";
  EXPECT_TRUE(next.outlook);
}

TEST_F(ChooseLooks, StaysAwayFromWhatFailed) {
  std::vector<Look> looks;
  for (const Config& one : all_) {
    if (one.at("ROWS") == 12 && one.at("COLS") == 1) looks.push_back({one, std::nullopt});
    if (one.at("ROWS") == 8 && one.at("COLS") > 1) looks.push_back({one, std::nullopt});
    if (one.at("ROWS") <= 2) looks.push_back({one, 1.0 / static_cast<double>(one.at("COLS"))});
  }
  const Past past = past_of(looks);
  const Looks next = choose_looks(space_, machine_, past, {}, unseen(past), 3, 1);
  ASSERT_EQ(next.configs.size(), 3u);
  EXPECT_LE(next.configs[0].at("ROWS"), 6) << to_text(next.configs[0]);
}

TEST_F(ChooseLooks, SaysWhatItExpectsOfTheFirst) {
  std::vector<Look> looks;
  for (const Config& one : all_) {
    if (one.at("COLS") == 4 || looks.size() > 12) continue;
    looks.push_back({one, std::exp(-0.1 * static_cast<double>(one.at("COLS")))});
  }
  Past past = past_of(looks);
  past.time = 1;
  const Looks next = choose_looks(space_, machine_, past, {}, unseen(past), 1, 1);
  ASSERT_TRUE(next.outlook);
  EXPECT_EQ(next.outlook->from, looks.size());
  EXPECT_GT(next.outlook->gain, 0.2);  // four columns would be 0.4
  EXPECT_GT(next.outlook->deviation, 0);
}

// Where another campaign found one row to be best, the first looks are there, against the cost model.
TEST_F(ChooseLooks, BeginsWhereAnEarlierCampaignWasFast) {
  record::EarlierLooks earlier{"a device", "n=1", {}};
  for (const Config& one : all_) {
    earlier.looks.push_back({one, static_cast<double>(one.at("ROWS") * one.at("ROWS") * one.at("COLS"))});
  }
  earlier.looks.push_back({{{"LANES", 16}, {"ROWS", 8}}, std::nullopt});
  const Looks looks = choose_looks(space_, machine_, {}, {earlier}, all_, 3, 1);
  ASSERT_EQ(looks.configs.size(), 3u);
  EXPECT_EQ(looks.configs[0].at("ROWS"), 1) << to_text(looks.configs[0]);
  EXPECT_EQ(looks.configs[0].at("COLS"), 1) << to_text(looks.configs[0]);
  // Of another version of the source: unknown names do not count, values that are not declared are left out.
  record::EarlierLooks other{"a device", "n=1", {{{{"ROWS", 77}}, 1.0}, {{{"OTHER", 1}}, 2.0}}};
  EXPECT_EQ(choose_looks(space_, machine_, {}, {other}, all_, 3, 1).configs,
            choose_looks(space_, machine_, {}, {}, all_, 3, 1).configs);
}

// Times of earlier rounds, in units of the bound, follow from the incumbent's and what each round gained.
TEST(Looks, AreAllThatWasBuiltAndRun) {
  record::ProposalRequest request = toy_request(0.5, {{"LANES", 16}});
  record::RoundSummary single;
  single.candidate = request.incumbent;
  single.candidate.defines = {{"LANES", 16}, {"PACK", 1}};
  single.hypothesis.mechanism = "PACK";
  single.state = record::RoundState::kRolledBack;
  single.outcome = record::Outcome::kSlower;
  single.suite_ratio = 0.8;
  record::RoundSummary sweep = single;
  sweep.hypothesis.mechanism = "ROWS+COLS";
  sweep.state = record::RoundState::kAccepted;
  sweep.accepted = true;
  sweep.suite_ratio = 2;
  for (const auto& [rows, score] : {std::pair(4, 0.25), std::pair(8, 0.5), std::pair(12, 0.0)}) {
    record::ScreenRow row;
    row.defines = {{"LANES", 16}, {"ROWS", rows}};
    row.score = score;
    row.outcome = score > 0 ? record::Outcome::kPass : record::Outcome::kCrash;
    sweep.sweep.push_back(row);
  }
  request.history = {single, sweep};
  request.incumbent.defines = {{"LANES", 16}, {"ROWS", 8}};
  const Space space = *Space::create(request.space);
  const Past past = digest_history(space, request);
  EXPECT_DOUBLE_EQ(past.time, 2);
  ASSERT_EQ(past.looks.size(), 4u);
  EXPECT_EQ(past.looks[0].config, space.complete(single.candidate.defines));
  EXPECT_DOUBLE_EQ(*past.looks[0].time, 5);  // the incumbent took 4 before the round that gained 2x
  EXPECT_DOUBLE_EQ(*past.looks[1].time, 4);
  EXPECT_DOUBLE_EQ(*past.looks[2].time, 2);
  EXPECT_FALSE(past.looks[3].time);
}

TEST(Trust, FollowsWhatCameOfPromises) {
  record::ProposalRequest request = toy_request(0.5, {{"LANES", 16}});
  const Space space = *Space::create(request.space);
  record::RoundSummary round;
  round.candidate = request.incumbent;
  round.hypothesis.category = "layout";
  round.hypothesis.mechanism = "PACK";
  round.hypothesis.expected_gain = 0.21;
  const auto trust_after = [&](record::RoundState state, double ratio) {
    round.state = state;
    round.accepted = state == record::RoundState::kAccepted;
    round.suite_ratio = ratio;
    request.history = {round};
    return digest_history(space, request).trust_in("layout");
  };
  EXPECT_DOUBLE_EQ(trust_after(record::RoundState::kAccepted, 1.5), 1);
  EXPECT_NEAR(trust_after(record::RoundState::kAccepted, 1.1), 0.75, 1e-9);  // half of the promised logarithm
  EXPECT_DOUBLE_EQ(trust_after(record::RoundState::kRolledBack, 1.1), 0.5);
  EXPECT_DOUBLE_EQ(trust_after(record::RoundState::kNotSettled, 1), 1);
  EXPECT_DOUBLE_EQ(trust_after(record::RoundState::kNotMeasured, 1), 1);
  EXPECT_DOUBLE_EQ(digest_history(space, request).trust_in("tile"), 1);
}

}  // namespace
}  // namespace ridge::propose
