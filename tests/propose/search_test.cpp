#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "propose/proposer.h"
#include "propose/request.h"
#include "propose/space.h"
#include "record/json.h"

namespace ridge::propose {
namespace {

using record::Proposal;
using record::ProposalRequest;
using ::testing::HasSubstr;

Proposal ask(const ProposalRequest& request, const std::string& spec = "search") {
  auto proposer = make_proposer(spec);
  EXPECT_TRUE(proposer.ok());
  auto proposal = (*proposer)->propose(request);
  EXPECT_TRUE(proposal.ok()) << (proposal.ok() ? "" : proposal.error().text());
  return *proposal;
}

TEST(Search, VectorisesWhenTheEvidenceSaysScalar) {
  const Proposal proposal = ask(toy_request());
  EXPECT_EQ(proposal.hypothesis.mechanism, "LANES");
  EXPECT_EQ(proposal.hypothesis.category, "resource");
  EXPECT_EQ(proposal.hypothesis.bottleneck, "latency");
  EXPECT_EQ(proposal.candidates.front().defines.at("LANES"), 16);
  EXPECT_NEAR(proposal.hypothesis.expected_gain, 15.0, 0.1);  // 16 lanes instead of one
  EXPECT_THAT(proposal.hypothesis.reasoning, HasSubstr("0 vector and 1 scalar multiply-adds"));
  EXPECT_THAT(proposal.hypothesis.reasoning, HasSubstr("0.8 % of its roofline bound"));
  EXPECT_THAT(proposal.hypothesis.expected_gain_arithmetic, HasSubstr("0.781 % -> 12.5 %"));
  EXPECT_FALSE(proposal.hypothesis.risks.empty());
  EXPECT_FALSE(proposal.hypothesis.verification_signal.empty());
  EXPECT_EQ(proposal.hypothesis.evidence.front(), toy_request().incumbent.id());
}

TEST(Search, LeavesOutWhatTheMemoryOfAnotherCampaignRefuted) {
  const Proposal before = ask(toy_request());
  ProposalRequest request = toy_request();
  record::Iteration refuted;
  refuted.references = {{"candidate", before.candidates.front().id(), "refuted"}};
  request.memory = {refuted};
  for (const record::Candidate& candidate : ask(request).candidates)
    EXPECT_NE(candidate.id(), before.candidates.front().id());
  request.memory[0].references[0].description = "unsettled";  // nothing was shown: worth another try
  EXPECT_EQ(ask(request).candidates.front().id(), before.candidates.front().id());
}

TEST(Search, NeverAsksForVectorsWiderThanTheMachine) {
  ProposalRequest request = toy_request();
  request.environment.facts = {{"cpu.flags", "fma avx2 sse"}};
  for (const record::Candidate& candidate : ask(request).candidates) EXPECT_LE(candidate.defines.at("LANES"), 8);
}

TEST(Search, TilesOnceVectorsWaitForTheirOwnSums) {
  const Proposal proposal = ask(toy_request(0.12, {{"LANES", 16}}));
  EXPECT_EQ(proposal.hypothesis.mechanism, "parameters 1");
  EXPECT_GT(proposal.candidates.size(), 5u);
  std::set<std::string> ids;
  auto space = Space::create(toy_request().space);
  for (const record::Candidate& candidate : proposal.candidates) {
    EXPECT_TRUE(space->check(candidate.defines).ok());
    EXPECT_EQ(candidate.defines.at("LANES"), 16);
    EXPECT_FALSE(candidate.defines.contains("PACK"));
    EXPECT_TRUE(ids.insert(candidate.id()).second);
  }
}

TEST(Search, BlamesMemoryForWhatTheIssueLimitDoesNotExplain) {
  const Proposal proposal = ask(toy_request(0.6, {{"LANES", 16}, {"ROWS", 8}, {"COLS", 3}}));
  EXPECT_EQ(proposal.hypothesis.mechanism, "PACK");
  EXPECT_EQ(proposal.hypothesis.bottleneck, "memory");
  // 1/0.6 = 1.667, 0.667 of it memory, 40 % of that away: 1.4.
  EXPECT_NEAR(proposal.hypothesis.expected_gain, 1.0 / 0.6 / 1.4 - 1, 1e-3);
}

TEST(Search, UsesThreadsOnlyWhenTheProtocolAllowsThem) {
  ProposalRequest request = toy_request(0.45, {{"LANES", 16}, {"ROWS", 8}, {"COLS", 3}, {"PACK", 1}});
  EXPECT_NE(ask(request).hypothesis.mechanism, "THREADS");
  request.spec.protocol.threads = 2;
  EXPECT_EQ(ask(request).hypothesis.mechanism, "THREADS");
}

// Two directions that the model expects equally little of: the order of tiles works on memory, the other does not.
constexpr const char* kTwoDirections = R"(/* ridge-tunables
[[tunable]]
name = "WALK"
values = [0, 1]
default = 0
kind = "structure"
category = "layout"
title = "order of tiles"
model = "walk"
[[tunable]]
name = "OTHER"
values = [0, 1]
default = 0
kind = "structure"
category = "tile"
title = "something else"
*/
int toy;
)";

TEST(Search, TurnsToWhatAProfilerSawLimit) {
  ProposalRequest request = toy_request(0.0075);
  request.incumbent.sources = {{"toy.cpp", kTwoDirections}};
  request.space = *record::tune_space(request.incumbent);
  request.profile = record::ProfileReport{};
  request.profile->tool = "ncu";
  request.profile->verdict = "seen";
  for (const auto& [limit, mechanism] :
       {std::pair(record::Bottleneck::kMemory, "WALK"), std::pair(record::Bottleneck::kLatency, "OTHER")}) {
    request.profile->bottleneck = limit;
    const Proposal proposal = ask(request);
    EXPECT_EQ(proposal.hypothesis.mechanism, mechanism);
    EXPECT_EQ(proposal.hypothesis.bottleneck, record::name_of(limit));
    EXPECT_NE(proposal.hypothesis.reasoning.find("ncu says: seen"), std::string::npos);
  }
  // One that saw nothing changes nothing.
  ProposalRequest plain = toy_request(0.6, {{"LANES", 16}, {"ROWS", 4}, {"COLS", 2}});
  const std::string without = record::to_line(ask(plain));
  plain.profile = record::ProfileReport{};
  EXPECT_EQ(record::to_line(ask(plain)), without);
}

TEST(Search, GivesTheSameAnswerToTheSameRequest) {
  const ProposalRequest request = toy_request(0.12, {{"LANES", 16}});
  EXPECT_EQ(record::to_line(ask(request)), record::to_line(ask(request)));
}

TEST(Search, DoesNotRepeatWhatWasRolledBackAndSaysWhatItLearnt) {
  ProposalRequest request = toy_request(0.6, {{"LANES", 16}, {"ROWS", 8}, {"COLS", 3}});
  const Proposal first = ask(request);
  request.history.push_back(toy_round(request, first, false));
  ++request.round;
  const Proposal second = ask(request);
  EXPECT_NE(second.hypothesis.mechanism, first.hypothesis.mechanism);
  EXPECT_EQ(second.hypothesis.informed_by, 2);
  EXPECT_THAT(second.hypothesis.reasoning, HasSubstr("Round 2 (PACK) was rolled back: not faster"));
}

TEST(Search, LearnsNothingFromARoundThatWasNotMeasured) {
  ProposalRequest request = toy_request();
  const Proposal first = ask(request);
  record::RoundSummary lost = toy_round(request, first, false);
  lost.outcome = record::Outcome::kAmbiguous;
  lost.state = record::RoundState::kNotMeasured;
  request.history.push_back(lost);
  const Proposal again = ask(request);
  EXPECT_EQ(again.hypothesis.mechanism, first.hypothesis.mechanism);
  EXPECT_EQ(again.candidates.front().id(), first.candidates.front().id());
  EXPECT_FALSE(again.hypothesis.informed_by);
  EXPECT_THAT(again.hypothesis.reasoning, testing::Not(HasSubstr("rolled back")));
}

// The looks of a round that was not measured are all that its direction has: it proposes the fastest of them again.
TEST(Search, OffersAgainWhatWasLookedAtInARoundThatWasNotMeasured) {
  ProposalRequest request = toy_request(0.0075);
  request.incumbent.sources = {{"toy.cpp", kTwoDirections}};
  request.space = *record::tune_space(request.incumbent);
  for (int round = 0; round < 4; ++round) {
    const Proposal proposal = ask(request);
    ASSERT_FALSE(proposal.exhausted);
    ASSERT_FALSE(proposal.candidates.empty());
    record::RoundSummary lost = toy_round(request, proposal, false);
    lost.outcome = record::Outcome::kAmbiguous;
    lost.state = record::RoundState::kNotMeasured;
    for (std::size_t i = 0; i < lost.sweep.size(); ++i) {
      lost.sweep[i].outcome = record::Outcome::kPass;
      lost.sweep[i].score = 0.5 + 0.01 * static_cast<double>(i);
    }
    request.history.push_back(lost);
    ++request.round;
  }
}

// A configuration of a sweep that crashed did so by itself, although others of its round were not looked at.
TEST(Search, DoesNotOfferAgainWhatFailedByItselfInARoundThatWasNotMeasured) {
  ProposalRequest request = toy_request();
  const Proposal first = ask(request);
  record::RoundSummary lost = toy_round(request, first, false);
  lost.outcome = record::Outcome::kAmbiguous;
  lost.state = record::RoundState::kNotMeasured;
  ASSERT_GT(lost.sweep.size(), 1u);
  for (record::ScreenRow& row : lost.sweep) row.outcome = record::Outcome::kAmbiguous;
  lost.sweep.front().outcome = record::Outcome::kCrash;
  request.history.push_back(lost);
  const Proposal again = ask(request);
  EXPECT_EQ(again.hypothesis.mechanism, first.hypothesis.mechanism);
  for (const record::Candidate& one : again.candidates) EXPECT_NE(one.defines, first.candidates.front().defines);
  EXPECT_EQ(again.candidates.back().defines, first.candidates.back().defines);
}

// A space of 20 x 20 x 3 configurations, all of which are parameters.
constexpr const char* kWideSource = R"(/* ridge-tunables
[[tunable]]
name = "ROWS"
values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
default = 1
title = "rows"
model = "register_rows"
group = "register tile"
[[tunable]]
name = "COLS"
values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
default = 1
title = "columns"
model = "register_cols"
group = "register tile"
[[tunable]]
name = "DEPTH"
values = [1, 2, 4]
default = 1
title = "depth"
group = "register tile"
*/
int toy;
)";

TEST(Search, SweepsAreAsLargeAsTheManifestAndTheTimeLeftAllow) {
  const auto size_of = [](const char* most, double seconds_left) {
    ProposalRequest request = toy_request();
    request.incumbent.sources = {{"toy.cpp", kWideSource}};
    request.space = *record::tune_space(request.incumbent);
    request.seconds_left = seconds_left;
    if (*most != '\0') request.spec.extra["sweep_most"] = most;
    const Proposal proposal = ask(request);
    EXPECT_EQ(record::to_line(proposal), record::to_line(ask(request)));
    std::set<std::string> ids;
    for (const record::Candidate& one : proposal.candidates) ids.insert(one.id());
    EXPECT_EQ(ids.size(), proposal.candidates.size());
    return proposal.candidates.size();
  };
  EXPECT_EQ(size_of("", 0), 20u);
  EXPECT_EQ(size_of("60", 0), 60u);
  EXPECT_EQ(size_of("80", 0), 80u);
  EXPECT_EQ(size_of("10", 0), 10u);
  EXPECT_EQ(size_of("many", 0), 20u);  // of a manifest that no engine takes
  // 0.12 of the time left, at 1.3 s a configuration and device.
  EXPECT_EQ(size_of("", 120), 11u);
  EXPECT_EQ(size_of("60", 120), 33u);
  EXPECT_EQ(size_of("60", 10), 6u);
}

TEST(Search, WhatCouldNotBeToldIsNotCalledRolledBack) {
  ProposalRequest request = toy_request();
  const Proposal first = ask(request);
  record::RoundSummary unsettled = toy_round(request, first, false);
  unsettled.outcome = record::Outcome::kAmbiguous;
  unsettled.state = record::RoundState::kNotSettled;
  request.history.push_back(unsettled);
  EXPECT_THAT(ask(request).hypothesis.reasoning, testing::Not(HasSubstr("rolled back")));
}

TEST(Search, OffersTheNextBestWhenItsFavouriteFailed) {
  ProposalRequest request = toy_request();
  const Proposal first = ask(request);
  request.last_error = "COMPILE: internal compiler error";
  const Proposal second = ask(request);
  EXPECT_EQ(second.hypothesis.mechanism, first.hypothesis.mechanism);
  EXPECT_NE(second.candidates.front().id(), first.candidates.front().id());
}

TEST(Search, TunesAgainOnlyAfterSomethingElseWasAccepted) {
  ProposalRequest request = toy_request(0.12, {{"LANES", 16}});
  const auto accept = [&](const Proposal& proposal, double fraction) {
    request.history.push_back(toy_round(request, proposal, true));
    request.incumbent = proposal.candidates.front();
    request.roofline[0].fraction = fraction;
    ++request.round;
  };
  accept(ask(request), 0.6);
  const Proposal packed = ask(request);
  EXPECT_EQ(packed.hypothesis.mechanism, "PACK");
  accept(packed, 0.8);
  const Proposal again = ask(request);
  EXPECT_EQ(again.hypothesis.mechanism, "parameters 2");
  EXPECT_THAT(again.hypothesis.title, HasSubstr("again"));
}

TEST(Search, EndsExhaustedWithTheReasonAndLooksAtNothingTwice) {
  ProposalRequest request = toy_request();
  auto space = Space::create(request.space);
  std::set<Config> seen = {space->complete({})};
  Proposal proposal = ask(request);
  for (int i = 0; i < 40 && !proposal.exhausted; ++i) {
    for (const record::Candidate& candidate : proposal.candidates) {
      EXPECT_TRUE(seen.insert(space->complete(candidate.defines)).second) << candidate.name;
    }
    request.history.push_back(toy_round(request, proposal, false));
    ++request.round;
    proposal = ask(request);
  }
  ASSERT_TRUE(proposal.exhausted);
  EXPECT_TRUE(proposal.candidates.empty());
  EXPECT_THAT(proposal.reason, HasSubstr("nothing untried is left"));
  EXPECT_THAT(proposal.reason, HasSubstr("LANES (rolled back in round 2)"));
}

TEST(Search, SaysSoWhenNothingIsDeclared) {
  ProposalRequest request = toy_request();
  request.incumbent.sources[0].text = "int toy;";
  request.space = {};
  const Proposal proposal = ask(request);
  EXPECT_TRUE(proposal.exhausted);
  EXPECT_THAT(proposal.reason, HasSubstr("declares no tunables"));
}

TEST(Search, SpendsAShareOfTheTimeLeftOnASweep) {
  ProposalRequest request = toy_request(0.12, {{"LANES", 16}});
  request.seconds_left = 1000;
  const std::size_t rich = ask(request).candidates.size();
  request.seconds_left = 20;
  const std::size_t poor = ask(request).candidates.size();
  EXPECT_GT(rich, poor);
  EXPECT_GE(poor, 6u);
}

TEST(Search, DrawsOtherwiseWithAnotherSeedOfTheUser) {
  ProposalRequest request = toy_request(0.12, {{"LANES", 16}});
  request.seconds_left = 20;
  const auto drawn = [&](const std::string& spec) {
    std::set<std::string> ids;
    for (const record::Candidate& candidate : ask(request, spec).candidates) ids.insert(candidate.id());
    return ids;
  };
  std::set<std::set<std::string>> different;
  for (int seed = 1; seed <= 8; ++seed) different.insert(drawn("search:" + std::to_string(seed)));
  EXPECT_GT(different.size(), 1u);
  EXPECT_EQ(drawn("search:7"), drawn("search:7"));
  EXPECT_EQ((*make_proposer("search:7"))->name(), "search:7");
}

TEST(Proposers, AnUnknownNameListsTheKnownOnes) {
  auto proposer = make_proposer("wizard");
  ASSERT_FALSE(proposer.ok());
  EXPECT_EQ(proposer.error().text(),
            "unknown proposer \"wizard\" (known are search[:SEED] | replay:JOURNAL | command:CMD | manual)");
  EXPECT_THAT(make_proposer("replay").error().text(), HasSubstr("needs an argument (write --proposer replay:JOURNAL)"));
  EXPECT_THAT(make_proposer("search:fast").error().text(),
              HasSubstr("the seed \"fast\" of search is not a whole number"));
  EXPECT_THAT(make_proposer("search:").error().text(), HasSubstr("needs an argument (write --proposer search[:SEED])"));
  EXPECT_EQ(list_proposers().size(), 4u);
}

}  // namespace
}  // namespace ridge::propose
