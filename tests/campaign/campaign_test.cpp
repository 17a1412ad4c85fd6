#include "campaign/campaign.h"
#include "base/error.h"

#include "campaign/manifest.h"
#include "campaign/render.h"
#include "campaign/tips.h"
#include "campaign/verify.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

std::vector<record::Proposal> story() {
  return {make_proposal({make_candidate(150)}),                                            // round 2: accepted
          make_proposal({make_candidate(120)}, "SLOWER"),                                  // round 3: slower
          make_proposal({make_candidate(160), make_candidate(300), make_candidate(200)}),  // round 4: sweep, accepted
          make_proposal({make_candidate(kIsWrong)}, "WRONG")};                             // round 5: wrong
}

TEST(Campaign, RunsFromBaselineToReportWithOneVerdictPerRound) {
  World world(one_per_round(story()));
  const Result<RunResult> result = world.run();
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->end, RunEnd::kDone);
  const State state = world.state();
  ASSERT_EQ(state.rounds.size(), 4u);
  EXPECT_TRUE(state.rounds[0].committed);
  EXPECT_TRUE(state.rounds[1].rolled_back);
  EXPECT_TRUE(state.rounds[2].committed);
  EXPECT_TRUE(state.rounds[3].rolled_back);
  EXPECT_EQ(state.incumbent.candidate.defines.at("SPEED"), 300);
  EXPECT_NEAR(state.product_of_accepted, 3.0, 0.02);
  ASSERT_FALSE(state.final_measurement->effects.empty());
  EXPECT_NEAR(state.final_measurement->effects[0].ratio, 3.0, 0.02);
  ASSERT_EQ(state.final_measurement->peers.size(), state.spec().target_cases.size());
  EXPECT_EQ(state.final_measurement->peers[0].subject, "library");
  EXPECT_NEAR(*state.final_measurement->peers[0].ratio, 8.0 / 3.0, 0.1);
  EXPECT_EQ(state.termination->condition, "exhausted");
  EXPECT_EQ(phase_of(state), record::Phase::kDone);
}

// Looks at all of them and at the incumbent say that nothing can come of it: no check, no session.
TEST(Campaign, MeasuresNothingOfASweepThatFallsFarBehind) {
  World world(one_per_round({make_proposal({make_candidate(150)}),
                             make_proposal({make_candidate(120), make_candidate(100), make_candidate(140)}, "SLOWER"),
                             make_proposal({make_candidate(145), make_candidate(300)}, "FASTER")}));
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_EQ(state.rounds.size(), 3u);
  const Round& round = state.rounds[1];
  EXPECT_TRUE(round.rolled_back);
  EXPECT_FALSE(round.last().evaluated);
  ASSERT_TRUE(round.last().screened->incumbent);
  EXPECT_EQ(round.last().screened->rows.size(), 3u);
  EXPECT_EQ(round.decision->outcome, record::Outcome::kSlower);
  EXPECT_EQ(round.decision->gates.front().gate, "effect");
  EXPECT_NE(round.decision->reason.find("3 configurations reached 93.3 %"), std::string::npos)
      << round.decision->reason;
  EXPECT_EQ(state.decisions_used, 2) << "a look uses up nothing of the error budget";
  EXPECT_EQ(state.incumbent.candidate.defines.at("SPEED"), 300);
  EXPECT_TRUE(replay_campaign(world.path())->differences.empty());
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
}

// Configurations that are equally fast, with a `winner` the last one twice as fast.
record::Proposal equal_sweep(std::size_t size, const std::string& mechanism, std::int64_t first, bool winner = false) {
  std::vector<record::Candidate> candidates;
  for (std::size_t i = 0; i < size; ++i) {
    candidates.push_back(make_candidate(100));
    candidates.back().defines["TILE"] = first + static_cast<std::int64_t>(i);
  }
  if (winner) candidates.back().defines["SPEED"] = 200;
  return make_proposal(std::move(candidates), mechanism);
}

// More devices look at more configurations, and the fastest look is the luckier one. What is accepted is decided by
// samples of its own, at the same share of the error budget.
TEST(Campaign, ALargeSweepUsesUpAsMuchOfTheErrorBudgetAsASmallOne) {
  std::vector<std::string> decisions;
  for (const std::size_t size : {4u, 20u, 80u}) {
    World world(one_per_round(
        {equal_sweep(size, "FIRST", 1), equal_sweep(size, "SECOND", 101), equal_sweep(size, "THIRD", 201, true)}));
    world.executor.on(record::WorkerTask::kScreen, [](const record::WorkerRequest& request) {
      record::WorkerResponse response = screen(request);
      for (std::size_t i = 0; i < request.candidates.size(); ++i)
        response.screen[i].score *= 1 + 0.05 * std::sin(static_cast<double>(7 * i + 1));
      return Result<record::WorkerResponse>(response);
    });
    ASSERT_TRUE(world.run());
    const State state = world.state();
    ASSERT_EQ(state.rounds.size(), 3u);
    EXPECT_EQ(state.rounds[0].last().screened->rows.size(), size);
    std::string decided;
    for (const Round& round : state.rounds) {
      EXPECT_EQ(round.last().screened->rows.size(), size);
      decided += fmt::format("{} {}\n", round.committed ? "accepted" : "rolled back",
                             round.last().evaluated ? round.last().evaluated->evaluation.sessions.size() : 0);
    }
    decisions.push_back(fmt::format("{}{} decisions", decided, state.decisions_used));
    EXPECT_TRUE(state.rounds[0].rolled_back) << "a lucky look is no gain";
    EXPECT_TRUE(state.rounds[2].committed);
    EXPECT_TRUE(replay_campaign(world.path())->differences.empty());
  }
  EXPECT_EQ(decisions[1], decisions[0]);
  EXPECT_EQ(decisions[2], decisions[0]);
}

// Devices that do not fit are refused once the campaign's own is known, and before anything is measured.
TEST(Campaign, AsksWhetherTheDevicesFitBeforeItMeasures) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  int asked = 0;
  world.check_devices = [&](const record::Environment& own) -> Status {
    ++asked;
    EXPECT_EQ(own.facts.at("cpu.model"), "testcpu");
    return invalid("n7 is another");
  };
  const auto refused = world.run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "n7 is another");
  EXPECT_TRUE(world.state().prepared);
  EXPECT_FALSE(world.state().baseline);
  EXPECT_FALSE(world.run());
  EXPECT_EQ(asked, 2) << "by every process";
  world.check_devices = [&](const record::Environment&) {
    ++asked;
    return ok_status();
  };
  ASSERT_TRUE(world.run());
  EXPECT_EQ(asked, 3) << "once";
  EXPECT_TRUE(world.state().rounds[0].committed);
}

// The cache was written to: what was measured is not what the sources make.
TEST(Campaign, AcceptsNoObjectThatTheSourcesDoNotMakeAgain) {
  for (const std::size_t arm : {0u, 1u}) {
    World world(one_per_round({make_proposal({make_candidate(150)})}));
    world.executor.on(record::WorkerTask::kBuild, [arm](const record::WorkerRequest& request) {
      record::WorkerResponse response = build(request);
      if (request.fresh_build) response.builds.at(arm).artifact = "object-of-the-sources";
      return Result<record::WorkerResponse>(response);
    });
    ASSERT_TRUE(world.run());
    const State state = world.state();
    ASSERT_EQ(state.rounds.size(), 1u);
    EXPECT_FALSE(state.rounds[0].committed);
    EXPECT_EQ(state.rounds[0].decision->outcome, record::Outcome::kHarnessFault);
    const std::string& reason = state.rounds[0].decision->reason;
    EXPECT_EQ(reason.find("rebuild: "), 0u) << reason;
    EXPECT_NE(reason.find("object-of-the-sources"), std::string::npos) << reason;
    EXPECT_NE(reason.find(make_build(make_candidate(arm == 0 ? 150 : 100)).artifact), std::string::npos) << reason;
    EXPECT_TRUE(replay_campaign(world.path())->differences.empty());
  }
}

TEST(Campaign, TheJournalHoldsTheRebuildOfEveryAccept) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  for (const Round& round : world.state().rounds) {
    const auto& rebuild = round.last().evaluated->evaluation.rebuild;
    EXPECT_EQ(rebuild.has_value(), round.committed.has_value()) << "only what would be accepted is built again";
    if (!rebuild) continue;
    EXPECT_EQ(rebuild->incumbent, make_build(round.incumbent).artifact);
  }
}

TEST(Campaign, EveryFileIsThereAndVerifies) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  for (const char* file : {"manifest.yaml", "manifest.confirmed", "journal.jsonl", "verified_ineffective.jsonl",
                           "logs/optimize.md", "logs/performance_trend.md", "logs/cost.md", "rounds/round-1/summary.md",
                           "rounds/round-4/artifacts/benchmark.csv", "rounds/round-2/kernel_snapshot/kernel.cpp",
                           "rounds/round-3/summary.md", "memory/v2.json", "src/kernel.cpp"}) {
    EXPECT_TRUE(std::filesystem::exists(world.path() / file)) << file;
  }
  const Result<VerifyReport> report = verify_campaign(world.path());
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_TRUE(report->ok()) << report->text();
  const Result<ReplayReport> replay = replay_campaign(world.path());
  ASSERT_TRUE(replay) << replay.error().text();
  EXPECT_EQ(replay->decisions, 4);
  EXPECT_TRUE(replay->differences.empty());
}

TEST(Campaign, TheTreeHoldsTheLastAcceptedCandidateAtTheEnd) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  const Tree wanted = tree_of(make_candidate(300));
  const Tree found = *read_tree(world.path() / "src", wanted);
  EXPECT_EQ(found.at("kernel.cpp"), wanted.at("kernel.cpp"));
  EXPECT_NE(found.at("candidate.json").find("\"SPEED\": 300"), std::string::npos);
  EXPECT_EQ(*world.git->head(), world.state().incumbent.commit);
}

TEST(Campaign, RunningAFinishedCampaignAgainChangesNothing) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  const std::string before = *read_file(world.path() / "journal.jsonl");
  const Result<RunResult> again = world.run();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->end, RunEnd::kDone);
  EXPECT_EQ(*read_file(world.path() / "journal.jsonl"), before);
}

TEST(Campaign, TheProposerSeesHistoryIncumbentAndRoofline) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  const record::ProposalRequest& last = world.proposer.requests.back();
  ASSERT_EQ(last.history.size(), 4u);
  EXPECT_EQ(last.history[1].outcome, record::Outcome::kSlower);
  EXPECT_EQ(last.history[2].sweep.size(), 3u);
  EXPECT_EQ(last.incumbent.defines.at("SPEED"), 300);
  ASSERT_EQ(last.roofline.size(), 3u);
  EXPECT_NEAR(last.roofline[0].fraction, 0.3, 0.01);
}

TEST(Campaign, ARepairWithinTheRoundIsMeasuredAsThatRound) {
  World world([](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round > 2) return nothing_left();
    if (request.last_error.empty()) return make_proposal({make_candidate(kDoesNotCompile)});
    return make_proposal({make_candidate(200)});
  });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_EQ(state.rounds.size(), 1u);
  EXPECT_EQ(state.rounds[0].attempts.size(), 2u);
  EXPECT_TRUE(state.rounds[0].committed);
  EXPECT_NE(world.proposer.requests[1].last_error.find("kernel.cpp:1: error"), std::string::npos);
}

TEST(Campaign, RepairsAreBoundedAndThenRolledBack) {
  std::int64_t asked = 0;
  World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round > 2) return nothing_left();
    return make_proposal({make_candidate(kDoesNotCompile, "// " + std::to_string(++asked))});
  });
  ASSERT_TRUE(world.run());
  EXPECT_EQ(asked, static_cast<std::int64_t>(kMaxAttempts));
  EXPECT_EQ(world.state().rounds[0].decision->outcome, record::Outcome::kCompile);
}

TEST(Campaign, AProposerThatKeepsFailingPausesAndResumes) {
  bool broken = true;
  World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (broken) return invalid("no such program");
    return one_per_round({make_proposal({make_candidate(150)})})(request);
  });
  const Result<RunResult> paused = world.run();
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_NE(paused->reason.find("no such program"), std::string::npos);
  EXPECT_EQ(phase_of(world.state()), record::Phase::kPaused);
  EXPECT_TRUE(world.state().rounds.empty());
  broken = false;
  const Result<RunResult> done = world.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone);
  EXPECT_EQ(world.state().rounds.size(), 1u);
  EXPECT_TRUE(verify_campaign(world.path())->ok());
}

TEST(Campaign, ASecondEngineIsRefusedWithTheHolder) {
  World world(one_per_round({}));
  ASSERT_TRUE(world.create());
  const auto first = world.open();
  ASSERT_TRUE(first);
  const auto second = world.open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_NE(second.error().message.find("is working on the campaign"), std::string::npos);
  EXPECT_NE(second.error().hint.find("ridge campaign status"), std::string::npos);
}

TEST(Campaign, CreatingOverACampaignIsRefused) {
  World world(one_per_round({}));
  ASSERT_TRUE(world.create());
  const Status again = world.create();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kConflict);
  EXPECT_NE(again.error().hint.find("resume"), std::string::npos);
}

TEST(Campaign, AManifestChangedAfterConfirmingBlocksUntilConfirmedAgain) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  ASSERT_TRUE(world.create());
  std::string text = *read_file(world.path() / "manifest.yaml");
  const std::size_t at = text.find("max_iterations: 20");
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(write_file_durably(world.path() / "manifest.yaml", text.replace(at, 18, "max_iterations: 3")));
  const auto blocked = world.open();
  ASSERT_FALSE(blocked);
  EXPECT_NE(blocked.error().message.find("max_iterations"), std::string::npos) << blocked.error().text();
  ASSERT_TRUE(confirm_campaign(world.path(), "test", world.clock));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().max_iterations, 3);
}

TEST(Campaign, TheTargetCannotChangeOnceConfirmed) {
  World world(one_per_round({}));
  ASSERT_TRUE(world.create());
  std::string text = *read_file(world.path() / "manifest.yaml");
  const std::size_t at = text.find("m=64 n=64 k=64");
  ASSERT_TRUE(write_file_durably(world.path() / "manifest.yaml", text.replace(at, 14, "m=65 n=64 k=64")));
  const auto refused = confirm_campaign(world.path(), "test", world.clock);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("target_shapes"), std::string::npos);
}

TEST(Campaign, AnEditedDraftIsWhatGetsConfirmed) {
  World world(one_per_round({}));
  ASSERT_TRUE(create_campaign(world.path(), make_spec(), make_candidate(100), world.clock));
  std::string text = *read_file(world.path() / "manifest.yaml");
  ASSERT_TRUE(write_file_durably(world.path() / "manifest.yaml",
                                 text + "my_note: [1, two]\nperformance_target: speedup >= 2x\n"));
  EXPECT_FALSE(confirm_campaign(world.path(), "test", world.clock));  // the key is there twice
  const std::size_t at = text.find("performance_target: ~");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 21, "performance_target: speedup >= 2x");
  ASSERT_TRUE(write_file_durably(world.path() / "manifest.yaml", text + "my_note: [1, two]\n"));
  const auto state = confirm_campaign(world.path(), "test", world.clock);
  ASSERT_TRUE(state) << state.error().text();
  EXPECT_DOUBLE_EQ(state->spec().performance_target->value, 2.0);
  EXPECT_NE(read_file(world.path() / "manifest.yaml")->find("my_note"), std::string::npos);
}

TEST(Campaign, ACandidateThatKillsTheWorkerCostsOneRoundOnly) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(200)})}));
  world.executor.on(record::WorkerTask::kEvaluate,
                    [](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
                      if (request.candidates[0].defines.at("SPEED") == 150)
                        return make_error(ErrorCode::kToolFailed, "killed by signal 9");
                      return evaluate(request);
                    });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_EQ(state.rounds.size(), 2u);
  EXPECT_EQ(state.rounds[0].decision->outcome, record::Outcome::kHarnessFault);
  EXPECT_TRUE(state.rounds[1].committed);
  EXPECT_TRUE(read_file(world.path() / "verified_ineffective.jsonl")->empty());  // nothing was refuted
}

TEST(Campaign, AnIncorrectBaselinePausesWithTheShape) {
  World world(one_per_round({}));
  world.executor.on(record::WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response = evaluate(request);
    response.evaluation->checks[1].outcome = record::Outcome::kWrong;
    return response;
  });
  const Result<RunResult> result = world.run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->end, RunEnd::kPaused);
  EXPECT_NE(result->reason.find("m=256"), std::string::npos);
}

TEST(Campaign, AFailedCommitDoesNotAcceptAndIsDoneAgainOnResume) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  ASSERT_TRUE(world.create());
  // The worktree cannot be written while a directory stands where the source belongs.
  std::filesystem::create_directories(world.path() / "src" / "kernel.cpp" / "x");
  auto engine = world.open();
  ASSERT_TRUE(engine);
  EXPECT_FALSE((*engine)->run());
  EXPECT_FALSE((*engine)->state().baseline_committed);
  engine->reset();
  std::filesystem::remove_all(world.path() / "src" / "kernel.cpp");
  ASSERT_TRUE(world.run());
  EXPECT_TRUE(world.state().rounds[0].committed);
}

TEST(Campaign, MoreBudgetReopensAFinishedCampaignWithoutChangingItsLogs) {
  record::CampaignSpec spec = make_spec();
  spec.max_iterations = 1;
  World world(one_per_round(story()), spec);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().termination->condition, "T3");
  const std::string log = *read_file(world.path() / "logs/optimize.md");
  ASSERT_TRUE(extend_budget(world.path(), {0, 4}, world.clock));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().rounds.size(), 4u);
  EXPECT_TRUE(read_file(world.path() / "logs/optimize.md")->starts_with(log));
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
}

TEST(Campaign, TipsAreReadAppendedOnceAndPassedOn) {
  World world(one_per_round(story()));
  world.engine_options.experience = world.base() / "experience";
  const std::filesystem::path path = world.base() / "experience/testcpu/gemm/cpu/tips.md";
  ASSERT_TRUE(write_file_durably(path, "# Tips\n\n## Pack B\nIt helps.\n"));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.proposer.requests[0].tips.size(), 1u);
  const std::string after = *read_file(path);
  EXPECT_TRUE(after.starts_with("# Tips\n\n## Pack B"));
  EXPECT_NE(after.find("round-4 — ACCEPTED"), std::string::npos);
  EXPECT_NE(after.find("round-5 — ROLLED BACK"), std::string::npos);
}

TEST(Campaign, TipsOfDecidedRoundsOutliveACampaignThatNeverEnds) {
  World world(one_per_round(story()));
  world.engine_options.experience = world.base() / "experience";
  world.engine_options.rounds = 3;
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_TRUE(state.paused);
  const std::filesystem::path path = world.base() / "experience/testcpu/gemm/cpu/tips.md";
  const std::string text = *read_file(path);
  EXPECT_EQ(knowledge::parse_tips(text).size(), tips_of(state).size());
  EXPECT_NE(text.find("round-2 — "), std::string::npos);
  EXPECT_NE(text.find("round-4 — ACCEPTED"), std::string::npos);
  // The rounds that follow are appended; what is there stays.
  world.engine_options.rounds.reset();
  ASSERT_TRUE(world.run());
  const std::string later = *read_file(path);
  EXPECT_TRUE(later.starts_with(text));
  EXPECT_GT(knowledge::parse_tips(later).size(), knowledge::parse_tips(text).size());
  EXPECT_EQ(knowledge::parse_tips(later).size(), tips_of(world.state()).size());
}

TEST(Campaign, ATipThatAKillTookIsWrittenAfterTheNextRound) {
  World world(one_per_round(story()));
  world.engine_options.experience = world.base() / "experience";
  world.engine_options.rounds = 2;
  ASSERT_TRUE(world.run());
  const std::filesystem::path path = world.base() / "experience/testcpu/gemm/cpu/tips.md";
  std::filesystem::remove(path);
  world.engine_options.rounds.reset();
  ASSERT_TRUE(world.run());
  EXPECT_EQ(knowledge::parse_tips(*read_file(path)).size(), tips_of(world.state()).size());
}

TEST(Campaign, ConstraintsAreBoundIntoTheManifestAndToldToEveryProposer) {
  const std::vector<std::string> wanted = {"no inline assembly", "keep `pack`'s signature: it's public", "# 1: é"};
  record::CampaignSpec spec = make_spec();
  ASSERT_TRUE(set_constraints(spec, wanted));
  spec.git_branch = "kernels/gemm";
  World world(one_per_round(story()), spec);
  ASSERT_TRUE(world.create());
  const std::string manifest = *read_file(world.path() / "manifest.yaml");
  EXPECT_EQ(constraints_of(*parse_manifest(manifest)), wanted);
  ASSERT_TRUE(world.run());
  for (const record::ProposalRequest& request : world.proposer.requests) {
    EXPECT_EQ(request.constraints, wanted);
    EXPECT_EQ(request.spec.git_branch, "kernels/gemm");
  }
  EXPECT_EQ(world.state().prepared->branch, "kernels/gemm");
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
}

TEST(Campaign, AConstraintThatIsTakenOutAfterTheConfirmationIsRefused) {
  record::CampaignSpec spec = make_spec();
  ASSERT_TRUE(set_constraints(spec, {"no inline assembly", "C++17 only"}));
  World world(one_per_round(story()), spec);
  ASSERT_TRUE(world.create());
  ASSERT_TRUE(set_constraints(spec, {"C++17 only"}));
  spec.created = world.state().spec().created;
  ASSERT_TRUE(write_file_durably(world.path() / "manifest.yaml", render_manifest(spec)));
  const auto opened = world.open();
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("was changed after it was confirmed"), std::string::npos)
      << opened.error().message;
}

TEST(Campaign, AManifestMayStateItsConstraintsInAnyForm) {
  const std::string plain = render_manifest(make_spec());
  const auto in = [&](const std::string& more) { return constraints_of(*parse_manifest(plain + more)); };
  EXPECT_TRUE(in("").empty());
  EXPECT_TRUE(in("constraints:\n").empty());
  EXPECT_EQ(in("constraints: C++17 only\n"), std::vector<std::string>{"C++17 only"});
  EXPECT_EQ(in("constraints: [one, two]\n"), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(in("constraints: {a: b}\n").size(), 1u);
}

TEST(Campaign, RefusesConstraintsAndBranchesThatCannotBeKept) {
  record::CampaignSpec spec = make_spec();
  for (const std::string& bad :
       {std::string(), std::string("  "), std::string("two\nlines"), std::string("\xff"), std::string(1001, 'a')}) {
    EXPECT_FALSE(set_constraints(spec, {bad})) << bad;
  }
  for (const char* good : {"auto", "none", "", "kernels/gemm", "optimize/a.b-c", "main"}) {
    spec.git_branch = good;
    EXPECT_TRUE(validate_spec(spec)) << good;
  }
  for (const char* bad : {"-x", "a..b", "a b", "a//b", "/a", "a/", ".a", "a/.b", "a.lock", "a.", "@", "a@{1}", "a~1",
                          "a:b", "a\\b", "a\nb", "a*"}) {
    spec.git_branch = bad;
    EXPECT_FALSE(validate_spec(spec)) << bad;
  }
}

}  // namespace
}  // namespace ridge::campaign::test
