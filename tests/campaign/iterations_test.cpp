#include "campaign/iterations.h"

#include "base/files.h"
#include "base/process.h"
#include "campaign/profile_hook.h"
#include "campaign/verify.h"
#include "campaign/versions.h"
#include "knowledge/memory.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

std::vector<record::Proposal> story() {
  return {make_proposal({make_candidate(150)}),                                            // round 2: accepted
          make_proposal({make_candidate(120)}, "SLOWER"),                                  // round 3: slower
          make_proposal({make_candidate(160), make_candidate(300), make_candidate(200)}),  // round 4: sweep, accepted
          make_proposal({make_candidate(kIsWrong)}, "WRONG")};                             // round 5: wrong
}

std::vector<record::Iteration> records_of(const World& world) {
  return *knowledge::Memory::open(world.path())->list(true);
}

TEST(Iterations, ACampaignLeavesOneValidRecordPerRound) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  const std::vector<record::Iteration> all = records_of(world);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_TRUE(knowledge::Memory::open(world.path())->validate()->empty());
  EXPECT_EQ(all[0].version, "v0");
  EXPECT_EQ(all[0].optimization.action_category, "baseline");
  EXPECT_EQ(all[0].git_commit_hash, world.state().baseline_committed->commit);
  EXPECT_NEAR(all[0].performance.latency_us_by_shape.at("m=64 n=64 k=64"), 100, 1);
  EXPECT_EQ(all[1].quality_gate.result, record::IterationStatus::kPass);
  EXPECT_NEAR(*all[1].performance.speedup_over_previous, 1.5, 0.02);
  EXPECT_NEAR(*all[1].performance.compute_utilisation, 0.15, 0.01);
  EXPECT_EQ(all[1].git_commit_hash, world.state().rounds[0].committed->commit);
  EXPECT_EQ(all[2].git_commit_hash, "") << "what was rolled back is no commit";
  EXPECT_EQ(all[2].quality_gate.result, record::IterationStatus::kFail);
  EXPECT_EQ(all[2].correctness.status, record::IterationStatus::kPass);
  EXPECT_EQ(all[2].quality_gate.failure_reason, world.state().rounds[1].decision->reason);
  EXPECT_NEAR(*all[2].correctness.rel_err, 1e-6, 1e-9);  // 120 dB
  EXPECT_EQ(*knowledge::Memory::open(world.path())->best(), "v3");
}

TEST(Iterations, WithoutGitNoRecordNamesACommit) {
  record::CampaignSpec spec = make_spec();
  spec.git_commit = false;
  World world(one_per_round(story()), spec);
  ASSERT_TRUE(world.run());
  for (const record::Iteration& one : records_of(world)) EXPECT_EQ(one.git_commit_hash, "") << one.version;
}

TEST(Iterations, ToolsFillInSearchPitfallsAndProgress) {
  World world(one_per_round(story()));
  world.executor.on(record::WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response = evaluate(request);
    response.evaluation->build.counts = {{"stack_spill", 3}, {"fma_scalar", 0}};
    return response;
  });
  ASSERT_TRUE(world.run());
  const std::vector<record::Iteration> all = records_of(world);
  // The sweep of round 4: every configuration with its score, and which one was taken.
  ASSERT_GE(all[3].search_log.size(), 3u);
  const auto taken = std::count_if(all[3].search_log.begin(), all[3].search_log.end(), [](const auto& entry) {
    return entry.query == "SPEED=300" && entry.actionability == "measured as this round's candidate";
  });
  EXPECT_EQ(taken, 1);
  ASSERT_EQ(all[4].pitfalls_and_fixes.size(), 2u);  // wrong, and the repair that offered the same again
  EXPECT_EQ(all[4].pitfalls_and_fixes[1].error_type, "refused");
  EXPECT_EQ(all[4].pitfalls_and_fixes[0].error_type, "accuracy");
  EXPECT_EQ(all[4].pitfalls_and_fixes[0].error_message, "element 7 is 1.5, expected 2");
  EXPECT_FALSE(all[4].pitfalls_and_fixes[0].lesson.empty());
  ASSERT_EQ(all[1].isa_metric_progress.size(), 2u);
  EXPECT_EQ(all[1].isa_metric_progress[0].metric, "stack_spill");
  EXPECT_EQ(all[1].isa_metric_progress[0].current, 3);
  EXPECT_FALSE(all[1].isa_metric_progress[0].met);
  EXPECT_TRUE(all[1].isa_metric_progress[1].met);
}

TEST(Iterations, ARepairedAttemptIsAPitfallWithItsFix) {
  World world([](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round > 2) return nothing_left();
    return make_proposal({make_candidate(request.last_error.empty() ? kDoesNotCompile : 200)});
  });
  ASSERT_TRUE(world.run());
  const std::vector<record::Iteration> all = records_of(world);
  ASSERT_EQ(all[1].pitfalls_and_fixes.size(), 1u);
  EXPECT_EQ(all[1].pitfalls_and_fixes[0].error_type, "compilation");
  EXPECT_EQ(all[1].pitfalls_and_fixes[0].fix_applied, "answered by attempt 2");
}

TEST(Iterations, TheProposerSeesTheMemoryOfEveryRound) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  ASSERT_FALSE(world.proposer.requests.empty());
  EXPECT_EQ(world.proposer.requests.back().round, 6);
  for (const record::ProposalRequest& request : world.proposer.requests)
    EXPECT_EQ(request.memory.size(), static_cast<std::size_t>(request.round - 1)) << request.round;
}

// Masks the record of round 3 while the campaign is asked to go on after it.
class Masked : public testing::Test {
 protected:
  void play() {
    auto answers = story();
    // The candidate of round 3 again: refused as already measured unless that round is hidden.
    answers.insert(answers.begin() + 2, make_proposal({make_candidate(120)}, "SLOWER"));
    world = std::make_unique<World>(one_per_round(answers));
    world->proposer.attentive = !mask;
    ASSERT_TRUE(world->create());
    ASSERT_TRUE(request_stop_after(world->path(), 2));
    ASSERT_TRUE(world->run());
    if (mask) {
      ASSERT_TRUE(knowledge::Memory::open(world->path())->set_masked("v2", true));
    }
    ASSERT_TRUE(extend_budget(world->path(), {.wall_budget = 0, .max_iterations = 30}, world->clock));
    world->proposer.requests.clear();
    world->executor.on(record::WorkerTask::kEvaluate,
                       [](const record::WorkerRequest& request) { return evaluate_on(request, "again"); });
    const Result<RunResult> ended = world->run();
    ASSERT_TRUE(ended) << ended.error().text();
  }
  std::unique_ptr<World> world;
  bool mask = true;
};

TEST_F(Masked, ARoundIsGoneFromEverythingTheProposerIsGiven) {
  play();
  ASSERT_FALSE(world->proposer.requests.empty());
  const record::ProposalRequest& first = world->proposer.requests.front();
  ASSERT_EQ(first.round, 4);
  EXPECT_EQ(record::to_line(first).find("SLOWER"), std::string::npos);
  ASSERT_EQ(first.history.size(), 1u);
  EXPECT_EQ(first.history[0].round, 2);
  ASSERT_EQ(first.memory.size(), 2u);
  EXPECT_EQ(first.memory[1].version, "v1");
  EXPECT_TRUE(first.findings.empty());  // the only rollback is hidden: nothing escalates
  EXPECT_EQ(world->state().masked.rounds, std::vector<std::int64_t>{3});
}

TEST_F(Masked, ItsCandidateMayBeTriedAgainWithoutSayingWhatItLearnedFrom) {
  play();
  const State state = world->state();
  ASSERT_GE(state.rounds.size(), 3u);
  EXPECT_EQ(state.rounds[2].last().proposal.hypothesis.mechanism, "SLOWER");
  EXPECT_TRUE(state.rounds[2].hidden.contains(3));
  // What was asked under the mask is judged under it, also after it is lifted.
  ASSERT_TRUE(knowledge::Memory::open(world->path())->set_masked("v2", false));
  const VerifyReport report = *verify_campaign(world->path());
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_TRUE(replay_campaign(world->path())->ok());
}

TEST_F(Masked, WithoutTheMaskTheSameCandidateIsRefused) {
  mask = false;
  play();
  const record::ProposalRequest& first = world->proposer.requests.front();
  EXPECT_EQ(first.history.size(), 2u);
  EXPECT_NE(record::to_line(first).find("SLOWER"), std::string::npos);
  const State state = world->state();
  const bool refused = std::any_of(state.rounds.begin(), state.rounds.end(), [](const Round& round) {
    return std::any_of(round.refused.begin(), round.refused.end(), [](const record::Proposed& answer) {
      return answer.refused.find("round 3 measured this very candidate") != std::string::npos;
    });
  });
  EXPECT_TRUE(refused || (!state.refused.empty() && state.refused.back().refused.find(
                                                        "round 3 measured this very candidate") != std::string::npos));
}

TEST(Iterations, ARestartMasksTheSameRecordsForTheSameSeedAndTheCampaignGoesOnWithoutThem) {
  std::vector<std::string> masked[2];
  for (auto& versions : masked) {
    World world(one_per_round(story()));
    ASSERT_TRUE(world.create());
    ASSERT_TRUE(request_stop_after(world.path(), 4));
    ASSERT_TRUE(world.run());
    const record::MemoryRestart restart = *knowledge::Memory::open(world.path())->restart(7, world.clock);
    ASSERT_FALSE(restart.masked.empty());
    ASSERT_TRUE(extend_budget(world.path(), {.wall_budget = 0, .max_iterations = 30}, world.clock));
    world.proposer.requests.clear();
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.proposer.requests.front().memory.size(), 5 - restart.masked.size());
    versions = world.state().masked.versions;
    EXPECT_EQ(std::set<std::string>(versions.begin(), versions.end()),
              std::set<std::string>(restart.masked.begin(), restart.masked.end()));
  }
  EXPECT_EQ(masked[0], masked[1]);
}

TEST(Iterations, AMaskIsNoForgeryButAChangedNumberIs) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  ASSERT_TRUE(knowledge::Memory::open(world.path())->set_masked("v2", true));
  EXPECT_TRUE(verify_campaign(world.path())->ok());
  ASSERT_TRUE(knowledge::Memory::open(world.path())->update("v1", {"performance.latency_us=1"}));
  const VerifyReport report = *verify_campaign(world.path());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].path, "memory/v1.json");
  EXPECT_EQ(report.findings[0].kind, FileFinding::Kind::kForged);
}

TEST(Iterations, AProfileOfTheIncumbentIsEvidenceThatClaimsAreHeldAgainst) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.create());
  ASSERT_TRUE(request_stop_after(world.path(), 2));
  ASSERT_TRUE(world.run());  // round 2 accepted, round 3 rolled back
  record::ProfileReport report;
  report.tool = "ncu";
  report.kernel = "kernel";
  report.verdict = "memory at 92 %: near the ceiling";
  report.metrics = {{"tensor_fraction", "1", 0.02, 0.02, 0.02, 1, "counter"}};
  ASSERT_TRUE(keep_profile(world.state(), world.path(), report));
  ASSERT_TRUE(extend_budget(world.path(), {.wall_budget = 0, .max_iterations = 30}, world.clock));
  world.proposer.requests.clear();
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.proposer.requests.front().findings.back(), "ncu of kernel: memory at 92 %: near the ceiling");
  const State state = world.state();
  ASSERT_FALSE(state.escalations.empty());
  EXPECT_EQ(state.escalations[0].figures.at("tensor_fraction"), 0.02);
  // Every answer of this story claims "compute", which a matrix unit at 2 % contradicts.
  ASSERT_FALSE(state.refused.empty());
  EXPECT_NE(state.refused.back().refused.find("tensor_fraction = 0.02 contradicts"), std::string::npos)
      << state.refused.back().refused;
}

TEST(Iterations, AWorkspaceKeepsTheMemoryOfAllItsCampaigns) {
  record::CampaignSpec spec = make_spec();
  spec.extra[kWorkspaceKey] = "..";
  World world(one_per_round(story()), spec);
  const knowledge::Memory memory = *knowledge::Memory::init(world.base());
  record::Iteration earlier;
  earlier.optimization = {"tile", "of an earlier campaign", {}, {}};
  earlier.quality_gate.failure_reason = "slower";
  ASSERT_TRUE(memory.create(earlier, world.clock));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(memory.list()->size(), 6u);
  EXPECT_FALSE(std::filesystem::exists(world.path() / "memory"));
  EXPECT_EQ(world.proposer.requests.front().memory[0].optimization.action_description, "of an earlier campaign");
}

// Commits of versions take the files of the workspace alone: what its owner has staged meanwhile stays staged. While a
// merge waits there is none, and the files are kept.
TEST(Iterations, CommitsOfVersionsLeaveTheOwnersIndexAlone) {
  record::CampaignSpec spec = make_spec();
  spec.git_commit = true;
  spec.extra[kWorkspaceKey] = "..";
  World world(one_per_round(story()), spec);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-C", world.base().string()});
    const auto ended = run_process({.argv = words});
    EXPECT_TRUE(ended && ended->succeeded());
    return ended ? ended->output : std::string();
  };
  const std::unique_ptr<execute::Git> owner = execute::make_git(world.base());
  ASSERT_TRUE(owner->init());
  ASSERT_TRUE(write_file_durably(world.base() / "notes.md", "first\n"));
  ASSERT_TRUE(owner->commit("start", {"notes.md"}));
  ASSERT_TRUE(write_file_durably(world.base() / "notes.md", "second\n"));
  run({"add", "notes.md"});
  ASSERT_TRUE(world.run());
  EXPECT_EQ(run({"log", "--format=%s", "--", "notes.md"}), "start\n");
  EXPECT_NE(run({"log", "--format=%s", "--", "memory"}).find("v0: "), std::string::npos);
  EXPECT_EQ(run({"diff", "--cached", "--name-only"}), "notes.md\n");
  const std::string before = *owner->head();
  ASSERT_TRUE(write_file_durably(world.base() / ".git/MERGE_HEAD", before + "\n"));
  std::filesystem::remove(world.base() / "baseline_report.md");
  ASSERT_TRUE(keep_versions(world.state(), *knowledge::Memory::init(world.base()), world.base(), *owner));
  EXPECT_TRUE(std::filesystem::exists(world.base() / "baseline_report.md"));
  EXPECT_EQ(*owner->head(), before);
}

}  // namespace
}  // namespace ridge::campaign::test
