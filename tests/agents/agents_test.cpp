// Whole campaigns driven by scripted agents (agents.py). None of those that cheat gets anything accepted, none of those
// that fail costs more than time, and the record of every one of them verifies and replays.
#include <chrono>
#include <cstdlib>

#include "campaign/verify.h"
#include "campaign/world.h"
#include "places.h"

namespace ridge::campaign::test {
namespace {

constexpr const char* kSource = R"(/* ridge-tunables
[[tunable]]
name = "SPEED"
values = [90, 100, 120, 150, 200]
default = 100
title = "speed"
[[tunable]]
name = "TILE"
values = [1, 2]
default = 1
title = "tile"
*/
extern "C" int ridge_kernel(const ridge_call* call) { return 0; }
)";

record::Candidate tunable_kernel() {
  record::Candidate candidate = make_candidate(100, kSource);
  return candidate;
}

// A campaign whose proposer is agents.py with one behaviour.
class AgentWorld {
 public:
  explicit AgentWorld(const std::string& behaviour, double time_limit = 20.0) : world_(one_per_round({})) {
    ::setenv("RIDGE_TEST_CAMPAIGN", world_.path().c_str(), 1);
    propose::ProposerOptions options;
    options.time_limit = time_limit;
    proposer_ = propose::make_proposer(
                    "command:python3 " + source_dir().string() + "/tests/agents/agents.py " + behaviour, options)
                    .value();
  }
  Result<RunResult> run() {
    if (!std::filesystem::exists(world_.path() / "journal.jsonl")) {
      RIDGE_CHECK_OK(create_campaign(world_.path(), make_spec(), tunable_kernel(), world_.clock));
      RIDGE_CHECK_OK(confirm_campaign(world_.path(), "test", world_.clock));
    }
    EngineOptions options;
    options.data = source_dir() / "data";
    options.directory = world_.path();
    RIDGE_TRY(engine, Engine::open(std::move(options),
                                   Services{world_.executor, *proposer_, world_.clock, world_.git.get(), nullptr}));
    return engine->run();
  }
  State state() { return world_.state(); }
  World& world() { return world_; }

  void expect_sound() {
    const Result<VerifyReport> verified = verify_campaign(world_.path());
    ASSERT_TRUE(verified) << verified.error().text();
    EXPECT_TRUE(verified->ok()) << verified->text();
    EXPECT_TRUE(replay_campaign(world_.path())->ok());
  }

 private:
  World world_;
  std::unique_ptr<propose::Proposer> proposer_;
};

std::int64_t accepted(const State& state) {
  return std::count_if(state.rounds.begin(), state.rounds.end(),
                       [](const Round& round) { return round.committed.has_value(); });
}

TEST(Agents, AnHonestOneGetsWhatItMeasured) {
  AgentWorld agent("honest");
  const Result<RunResult> done = agent.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  const State state = agent.state();
  ASSERT_EQ(state.rounds.size(), 4u);
  EXPECT_EQ(accepted(state), 3);
  EXPECT_TRUE(state.rounds[1].rolled_back);
  EXPECT_EQ(state.incumbent.candidate.defines.at("SPEED"), 200);
  agent.expect_sound();
}

TEST(Agents, ASloppyOneIsToldWhatIsMissing) {
  AgentWorld agent("sloppy");
  ASSERT_TRUE(agent.run());
  const State state = agent.state();
  ASSERT_EQ(state.rounds.size(), 1u);
  EXPECT_EQ(state.rounds[0].refused.size(), 1u);
  EXPECT_NE(state.rounds[0].refused[0].refused.find("names no risk"), std::string::npos);
  EXPECT_TRUE(state.rounds[0].committed);
}

struct Cheat {
  const char* behaviour;
  const char* stopped_by;  // part of the refusal, or of the decision's reason
};
class CheatingAgents : public testing::TestWithParam<Cheat> {};

TEST_P(CheatingAgents, GetNothingAccepted) {
  AgentWorld agent(GetParam().behaviour);
  const Result<RunResult> done = agent.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  const State state = agent.state();
  EXPECT_EQ(accepted(state), 0);
  EXPECT_EQ(state.incumbent.candidate.id(), tunable_kernel().id());
  std::string why;
  for (const record::Proposed& answer : state.refused) why += answer.refused + "\n";
  for (const Round& round : state.rounds) why += round.decision->reason + "\n";
  EXPECT_NE(why.find(GetParam().stopped_by), std::string::npos) << why;
  agent.expect_sound();
}
INSTANTIATE_TEST_SUITE_P(
    Ways, CheatingAgents,
    testing::Values(Cheat{"claims", "effect"}, Cheat{"typed_verdict", "unknown key \"decision\""},
                    Cheat{"typed_time", "unknown key \"created\""}, Cheat{"escapes", "not a file of the incumbent"},
                    Cheat{"adds_file", "not a file of the incumbent"}, Cheat{"unplanned_file", "planned_files"},
                    Cheat{"forbidden_bucket", "new in every training step"}, Cheat{"unknown_bucket", "transfer bucket"},
                    Cheat{"hidden_cache", "outlives the call"}, Cheat{"remembers_input", "outlives the call"},
                    Cheat{"cache_in_prose", "declares no cache"}, Cheat{"unstable_key", "new in every training step"},
                    Cheat{"weight_cache_without_bound", "W1"}, Cheat{"comments_only", "only comments"},
                    Cheat{"nothing", "changes nothing"}, Cheat{"undeclared", "CHEAT"}, Cheat{"infeasible", "SPEED"},
                    Cheat{"two_changes", "change at once"}, Cheat{"mixed_sweep", "share their sources"},
                    Cheat{"invented_evidence", "no record of this campaign"}, Cheat{"wrong_class", "bottleneck"},
                    Cheat{"removes_interface", "is gone"}, Cheat{"bakes_in_loads", "divides by the block"},
                    Cheat{"negative_gain", "expected_gain"}),
    [](const auto& cheat) { return std::string(cheat.param.behaviour); });

class BrokenAgents : public testing::TestWithParam<const char*> {};

TEST_P(BrokenAgents, PauseTheCampaignAfterThreeFailuresAndLoseNothing) {
  const bool hangs = std::string_view(GetParam()) == "hang" || std::string_view(GetParam()) == "leaves_child";
  AgentWorld agent(GetParam(), hangs ? 0.5 : 20.0);
  const auto before = std::chrono::steady_clock::now();
  const Result<RunResult> paused = agent.run();
  ASSERT_TRUE(paused) << paused.error().text();
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_NE(paused->reason.find("3 times in a row"), std::string::npos) << paused->reason;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  const State state = agent.state();
  EXPECT_TRUE(state.rounds.empty());
  EXPECT_EQ(state.refused.size(), 3u);
  agent.expect_sound();
}
INSTANTIATE_TEST_SUITE_P(Ways, BrokenAgents,
                         testing::Values("crash", "hang", "leaves_child", "garbage_bytes", "garbage_empty",
                                         "garbage_deep", "garbage_huge", "garbage_half", "garbage_list", "garbage_nan"),
                         [](const auto& way) { return std::string(way.param); });

TEST(Agents, WhatOneWritesBehindTheJournalNeverCounts) {
  AgentWorld agent("tampers_journal_end");
  const Result<RunResult> done = agent.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  EXPECT_EQ(accepted(agent.state()), 0);
  ASSERT_EQ(agent.state().refused.size(), 1u);
  EXPECT_NE(agent.state().refused[0].refused.find("into the journal"), std::string::npos);
  agent.expect_sound();
}

TEST(Agents, OneThatRewritesTheJournalStopsTheEngineWithTheReason) {
  AgentWorld agent("tampers_journal_middle");
  const Result<RunResult> stopped = agent.run();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(load_campaign(agent.world().path()));  // and the changed file is not taken for the truth
}

TEST(Agents, WhatOneWritesIntoTheWorktreeIsNotWhatIsBuilt) {
  AgentWorld agent("tampers_worktree");
  ASSERT_TRUE(agent.run());
  const State state = agent.state();
  ASSERT_EQ(state.rounds.size(), 1u);
  EXPECT_TRUE(state.rounds[0].committed);  // its parameters are honest
  EXPECT_EQ(*read_file(agent.world().path() / "src/kernel.cpp"), kSource);
  agent.expect_sound();
}

TEST(Agents, ALogThatOneWritesIsKeptAsideAndRestored) {
  AgentWorld agent("tampers_log");
  const Result<RunResult> done = agent.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(read_file(agent.world().path() / "logs/optimize.md")->find("everything was accepted"), std::string::npos);
  agent.expect_sound();
}

}  // namespace
}  // namespace ridge::campaign::test
