// Knowledge pages in the loop: what a proposer is told, what it may cite, and what a stagnation turns to.
#include "campaign/advice.h"

#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "base/files.h"
#include "campaign/escalate.h"
#include "campaign/proposal_rules.h"
#include "campaign/verify.h"
#include "places.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using testing::HasSubstr;

const std::string kTile = "ops/gemm#choose-the-tile-by-whole-waves";

std::vector<record::Proposal> slower(int count) {
  std::vector<record::Proposal> proposals;
  for (int i = 0; i < count; ++i)
    proposals.push_back(make_proposal({make_candidate(90 + i)}, "SLOWER " + std::to_string(i)));
  return proposals;
}

const record::KnowledgeEntry* entry_of(const record::ProposalRequest& request, const std::string& id) {
  const auto found = std::ranges::find(request.knowledge, id, &record::KnowledgeEntry::id);
  return found == request.knowledge.end() ? nullptr : &*found;
}

TEST(Advice, ReachesTheProposerRoutedAndBestFirst) {
  World world(one_per_round(slower(1)));
  ASSERT_TRUE(world.run());
  const record::ProposalRequest& request = world.proposer.requests.front();
  ASSERT_FALSE(request.knowledge.empty());
  EXPECT_LE(request.knowledge.size(), kMostAdvice);
  const auto is_of = [&](const char* page) {
    return std::ranges::any_of(request.knowledge, [&](const auto& one) { return one.id.starts_with(page); });
  };
  EXPECT_TRUE(is_of("ops/gemm#"));
  EXPECT_TRUE(is_of("hardware/x86#"));
  for (const char* page : {"hardware/hopper#", "backends/cuda#", "ops/attention#"}) EXPECT_FALSE(is_of(page)) << page;
  EXPECT_THAT(request.knowledge.front().bottlenecks, testing::Contains("compute"));  // what bounds the baseline
  const State state = world.state();
  EXPECT_EQ(state.tips->knowledge_digest.size(), 64u);
  EXPECT_GE(state.tips->knowledge.size(), request.knowledge.size());
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
  EXPECT_TRUE(replay_campaign(world.path())->differences.empty());
}

TEST(Advice, AnEntrySaysWhatBecameOfTheRoundsThatNamedIt) {
  std::vector<record::Proposal> proposals = {make_proposal({make_candidate(90)}, kTile),
                                             make_proposal({make_candidate(91)})};
  proposals[1].hypothesis.evidence = {kTile};
  proposals.push_back(make_proposal({make_candidate(150)}));
  World world(one_per_round(proposals));
  ASSERT_TRUE(world.run());
  ASSERT_NE(entry_of(world.proposer.requests[0], kTile), nullptr);
  EXPECT_TRUE(entry_of(world.proposer.requests[0], kTile)->tried.empty());
  const record::KnowledgeEntry* later = entry_of(world.proposer.requests[2], kTile);
  ASSERT_NE(later, nullptr);
  ASSERT_EQ(later->tried.size(), 2u);
  EXPECT_THAT(later->tried[0], HasSubstr("round 2 (make it speed 90): rolled back"));
  EXPECT_THAT(later->tried[1], HasSubstr("round 3"));
}

TEST(Advice, AnEntryIsEvidenceAndAnInventedOneIsNot) {
  World world(one_per_round(slower(1)));
  ASSERT_TRUE(world.run());
  State state = world.state();
  record::Proposal proposal = make_proposal({make_candidate(170)}, "CITES");
  proposal.hypothesis.informed_by = 2;
  proposal.hypothesis.evidence = {kTile};
  EXPECT_EQ(refuse(proposal, state), "");
  proposal.hypothesis.evidence = {"ops/gemm#invented"};
  EXPECT_THAT(refuse(proposal, state), HasSubstr("evidence"));
}

TEST(Advice, AStagnationTurnsToEntriesThatNoRoundNamed) {
  World world(one_per_round(slower(3)));
  ASSERT_TRUE(world.run());
  const State state = world.state();
  const auto entries = knowledge::read_pages(source_dir() / "data/knowledge")->entries;
  auto advised = advice(state, entries, route_of(state, {}), entries.size());
  const std::vector<record::Direction> before = review(state, state.next_round(), advised);
  ASSERT_GE(before.size(), 3u);
  for (const record::Direction& direction : before) EXPECT_NE(direction.category, "tile");  // of the last three rounds
  // Named by a round, an entry is not offered again; another of the same kind is.
  for (record::KnowledgeEntry& entry : advised) {
    if (entry.title == before.front().title) entry.tried = {"round 2"};
  }
  const std::vector<record::Direction> after = review(state, state.next_round(), advised);
  ASSERT_GE(after.size(), 3u);
  for (const record::Direction& direction : after) EXPECT_NE(direction.title, before.front().title);
}

// Whatever three categories were used of late: entries for any kernel alone give three directions of two others.
TEST(Advice, TheReviewIsNeverShortOfDirections) {
  const auto entries = knowledge::read_pages(source_dir() / "data/knowledge")->entries;
  const std::vector<std::string> categories = {"tile", "layout", "pipeline", "resource", "backend", "algorithm"};
  World world(one_per_round(slower(3)));
  ASSERT_TRUE(world.run());
  State state = world.state();
  const auto advised = knowledge::routed(entries, {"nothing_known", {"no-device"}, {"no-language"}, "memory"});
  for (std::size_t i = 0; i < categories.size(); ++i) {
    for (std::size_t round = 0; round < 3; ++round)
      state.rounds[round].attempts.back().proposal.hypothesis.category =
          categories[(i + 2 * round) % categories.size()];
    const std::vector<record::Direction> directions = review(state, state.next_round(), advised);
    std::set<std::string> found;
    for (const record::Direction& direction : directions) found.insert(direction.category);
    EXPECT_GE(directions.size(), 3u) << i;
    EXPECT_GE(found.size(), 2u) << i;
  }
}

TEST(Advice, WithoutItsPagesACampaignDoesNotBegin) {
  World world(one_per_round({}));
  ASSERT_TRUE(world.create());
  EngineOptions options;
  options.directory = world.path();
  options.data = world.base() / "nothing";
  auto engine =
      Engine::open(std::move(options), Services{world.executor, world.proposer, world.clock, world.git.get()});
  ASSERT_TRUE(engine);
  const Result<RunResult> result = (*engine)->run();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text(), HasSubstr("there are no knowledge pages in"));
  EXPECT_THAT(result.error().text(), HasSubstr("RIDGE_DATA_DIR"));
}

TEST(Advice, PagesOfOnesOwnReachTheCampaign) {
  World world(one_per_round({}));
  ASSERT_TRUE(world.create());
  const std::filesystem::path own = world.base() / "own";
  ASSERT_TRUE(make_directories(own));
  ASSERT_TRUE(write_file_durably(
      own / "ours.md",
      "+++\ntitle = \"Ours\"\nbottleneck = [\"memory\"]\n+++\n\nProse.\n\n## What we found\n- Category: "
      "tile\n- Applies: always\n- Mechanism: reuse\n- Signal: fewer loads\n- Evidence: untested\n"));
  EngineOptions options;
  options.directory = world.path();
  options.data = source_dir() / "data";
  options.knowledge = {own};
  auto engine =
      Engine::open(std::move(options), Services{world.executor, world.proposer, world.clock, world.git.get()});
  ASSERT_TRUE(engine);
  ASSERT_TRUE((*engine)->run());
  EXPECT_THAT(world.state().tips->knowledge, testing::Contains("ours#what-we-found"));
}

TEST(Advice, ADeviceIsKnownByItsArchitecture) {
  const std::filesystem::path data = source_dir() / "data";
  using testing::Contains;
  EXPECT_THAT(device_words(data, "nvidia-h100-80gb-hbm3", "", "cuda"), Contains("hopper"));
  EXPECT_THAT(device_words(data, "a card", "sm_90a", "cuda"), Contains("hopper"));
  EXPECT_THAT(device_words(data, "AMD Instinct MI300X", "", "hip"), Contains("cdna3"));
  EXPECT_THAT(device_words(data, "MI355X", "", "triton"), Contains("cdna4"));
  EXPECT_THAT(device_words(data, "NVIDIA B300", "", "cuda"), Contains("blackwell-ultra"));
  EXPECT_THAT(device_words(data, "intel-xeon", "", "cpu"), Contains("x86"));
  EXPECT_EQ(device_words(data, "hopper", "", ""), std::vector<std::string>{"hopper"});
  EXPECT_EQ(device_words(data, "unheard-of", "", "cuda"), std::vector<std::string>{"unheard-of"});
  EXPECT_TRUE(device_words(data, "", "", "cuda").empty());
}

// Records of before there were pages.
TEST(Advice, AnEarlierRecordOfTipsIsStillRead) {
  const auto read = record::parse_record<record::TipsRead>(R"({"digest":"absent","tips":[]})");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(read->knowledge.empty());
}

}  // namespace
}  // namespace ridge::campaign::test
