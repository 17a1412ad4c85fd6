// The engine profiles by itself: when, what it keeps, what it passes on, and what never comes of it.
#include <gmock/gmock.h>

#include "base/error.h"
#include "campaign/export.h"
#include "campaign/profile_hook.h"
#include "campaign/render.h"
#include "campaign/verify.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::WorkerTask;
using testing::ElementsAre;
using testing::HasSubstr;

record::ProfileReport report_of(const record::WorkerRequest& request) {
  record::ProfileReport report;
  report.tool = "perf";
  report.kernel = request.candidates.front().name;
  report.bottleneck = record::Bottleneck::kMemory;
  report.verdict = "memory at 83 % limits";
  report.metrics = {{"dram_fraction", "1", 0.83, 0.8, 0.85, 3, "test"}};
  for (int i = 0; i < 40; ++i) report.kernels.push_back({"kernel " + std::to_string(i), 1, 1e-6, 0.025});
  return report;
}

// A machine with a profiler.
class Profiled : public World {
 public:
  explicit Profiled(std::vector<record::Proposal> proposals, record::CampaignSpec spec = make_spec())
      : World(one_per_round(std::move(proposals)), std::move(spec)) {
    record::WorkerResponse described;
    described.environment = record::Environment{{{"cpu.model", "testcpu"}, {kProfilerFact, "perf"}}};
    executor.on(WorkerTask::kDescribe, described);
    executor.on(WorkerTask::kProfile, [](const record::WorkerRequest& request) {
      record::WorkerResponse response;
      response.profile = report_of(request);
      return Result<record::WorkerResponse>(response);
    });
  }
  [[nodiscard]] std::vector<record::WorkerRequest> profiles_asked() const {
    std::vector<record::WorkerRequest> asked;
    for (const record::WorkerRequest& one : executor.requests()) {
      if (one.task == WorkerTask::kProfile) asked.push_back(one);
    }
    return asked;
  }
  std::vector<std::string> triggers() {
    std::vector<std::string> all;
    for (const record::Profiled& one : state().profiles) all.push_back(one.trigger);
    return all;
  }
  void expect_sound() {
    EXPECT_TRUE(verify_campaign(path())->ok()) << verify_campaign(path())->text();
    EXPECT_TRUE(replay_campaign(path())->differences.empty());
  }
};

record::Proposal of_speed(std::int64_t speed) {
  return make_proposal({make_candidate(speed)}, "SPEED " + std::to_string(speed));
}

TEST(Profiling, LooksAtTheBaselineAfterTwoRollbacksAndAtTheEndAndAtNoBuildTwice) {
  // Accepted, then two rollbacks: the new incumbent; the last one accepted is what the end looks at.
  Profiled world({of_speed(150), of_speed(120), of_speed(121), of_speed(122), of_speed(300)});
  ASSERT_TRUE(world.run());
  EXPECT_THAT(world.triggers(), ElementsAre("baseline", "rollbacks", "end"));
  const State state = world.state();
  EXPECT_EQ(state.profiles[0].round, 1);
  EXPECT_EQ(state.profiles[1].round, 2);
  EXPECT_EQ(state.profiles[2].round, 6);
  EXPECT_EQ(state.profiles[2].artifact, make_build(make_candidate(300)).artifact);
  const std::vector<record::WorkerRequest> asked = world.profiles_asked();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[1].candidates.front().id(), make_candidate(150).id());
  EXPECT_EQ(asked[0].cases.size(), 1u);
  EXPECT_GT(asked[0].time_limit, 0);
  EXPECT_LE(state.profiles[0].report->kernels.size(), 20u);  // of a trace of thousands
  const std::string costs = render_export(state, ExportFormat::kTurboView)->files.at("logs/cost.md");
  EXPECT_THAT(costs, HasSubstr("| PROFILE |"));
  world.expect_sound();
}

TEST(Profiling, ABaselineThatStandsIsLookedAtOnce) {
  Profiled world({of_speed(90), of_speed(91), of_speed(92)});
  ASSERT_TRUE(world.run());
  EXPECT_THAT(world.triggers(), ElementsAre("baseline"));
}

TEST(Profiling, IsToldToTheProposerAndHeldAgainstItsClaims) {
  Profiled world({of_speed(90), of_speed(91), of_speed(150)});
  ASSERT_TRUE(world.run());
  for (const record::ProposalRequest& request : world.proposer.requests) {
    ASSERT_TRUE(request.profile);
    EXPECT_EQ(request.profile->bottleneck, record::Bottleneck::kMemory);
    EXPECT_THAT(request.findings, testing::Contains(HasSubstr("memory at 83 % limits")));
    EXPECT_THAT(request.knowledge.front().bottlenecks, testing::Contains("memory"));
    if (request.round >= 3) break;  // after the accept the incumbent is another
  }
  EXPECT_NEAR(world.state().escalations.at(1).figures.at("dram_fraction"), 0.83, 1e-9);
}

TEST(Profiling, AProfilerThatFailsEndsNothingAndTheRecordSaysWhy) {
  for (const bool dies : {true, false}) {
    Profiled world({of_speed(150), of_speed(120)});
    world.executor.on(WorkerTask::kProfile, [dies](const record::WorkerRequest&) -> Result<record::WorkerResponse> {
      if (dies) return make_error(ErrorCode::kToolFailed, "perf was killed by signal 11");
      return record::WorkerResponse{};  // and nothing in it
    });
    const Result<RunResult> result = world.run();
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->end, RunEnd::kDone);
    const State state = world.state();
    ASSERT_EQ(state.profiles.size(), 2u);
    EXPECT_FALSE(state.profiles[0].report);
    EXPECT_THAT(state.profiles[0].note, HasSubstr(dies ? "perf was killed by signal 11" : "no report"));
    EXPECT_EQ(world.profiles_asked().size(), 2u);  // each once: a look is not worth a second try
    EXPECT_FALSE(world.proposer.requests.front().profile);
    EXPECT_TRUE(state.rounds[0].committed);
    world.expect_sound();
  }
}

TEST(Profiling, WhatAProfilerWroteIsRecordedInShortLines) {
  Profiled world({of_speed(150)});
  const std::string text = "gemm\n\033[2J ü" + std::string(5000, 'x');
  world.executor.on(WorkerTask::kProfile, [&](const record::WorkerRequest& request) {
    record::WorkerResponse response;
    record::ProfileReport report = report_of(request);
    report.device = report.verdict = report.kernel = report.kernels[0].name = text;
    report.missing.assign(5000, text);
    report.hypotheses = {{text, text, text, text, 0.5}};
    response.profile = report;
    return Result<record::WorkerResponse>(response);
  });
  ASSERT_TRUE(world.run());
  const record::ProfileReport report = *world.state().profiles.at(0).report;
  for (const std::string& one : {report.device, report.verdict, report.kernel, report.kernels[0].name,
                                 report.missing[0], report.hypotheses[0].name, report.hypotheses[0].action}) {
    EXPECT_EQ(one.size(), 200u);
    EXPECT_TRUE(one.starts_with("gemm  [2J üxxx")) << one;
  }
  EXPECT_EQ(report.missing.size(), 100u);
  world.expect_sound();
}

TEST(Profiling, ALongReasonOfAProfilerIsCutAsWell) {
  Profiled world({of_speed(150)});
  world.executor.on(WorkerTask::kProfile, [](const record::WorkerRequest&) -> Result<record::WorkerResponse> {
    return make_error(ErrorCode::kToolFailed, "which kernel?\n{}", std::string(5000, 'x'));
  });
  ASSERT_TRUE(world.run());
  EXPECT_THAT(world.state().profiles.at(0).note, HasSubstr("which kernel? xxx"));
  EXPECT_LE(world.state().profiles[0].note.size(), 1000u);
}

TEST(Profiling, WithoutAProfilerNothingIsRecorded) {
  for (const char* fact : {"none: perf is not on this machine", ""}) {
    World world(one_per_round({of_speed(90), of_speed(91)}));
    record::WorkerResponse described;
    described.environment = record::Environment{{{"cpu.model", "testcpu"}}};
    if (*fact != '\0') described.environment->facts[kProfilerFact] = fact;
    world.executor.on(WorkerTask::kDescribe, described);
    ASSERT_TRUE(world.run());
    EXPECT_TRUE(world.state().profiles.empty());
  }
}

TEST(Profiling, TakesNoMoreThanItsShareOfTheBudget) {
  record::CampaignSpec spec = make_spec();
  spec.wall_budget = 60;  // 3 % of it are less than a look takes
  Profiled small({of_speed(150)}, spec);
  ASSERT_TRUE(small.run());
  EXPECT_TRUE(small.profiles_asked().empty());
  ASSERT_FALSE(small.state().profiles.empty());
  EXPECT_THAT(small.state().profiles.front().note, HasSubstr("the budget leaves"));
  spec.wall_budget = 300;
  Profiled larger({of_speed(150)}, spec);
  larger.executor.on(WorkerTask::kProfile, [&](const record::WorkerRequest& request) {
    larger.clock.advance(7);
    record::WorkerResponse response;
    response.profile = report_of(request);
    return Result<record::WorkerResponse>(response);
  });
  ASSERT_TRUE(larger.run());
  ASSERT_FALSE(larger.profiles_asked().empty());
  EXPECT_NEAR(larger.profiles_asked().front().time_limit, 9, 1e-6);
  const State state = larger.state();
  const auto cost = std::ranges::find(state.costs, record::EventKind::kProfiled, &CostRow::kind);
  ASSERT_NE(cost, state.costs.end());
  EXPECT_GE(cost->seconds, 7);  // charged
}

TEST(Profiling, AReportThatAPersonGaveGoesBeforeTheEnginesOwn) {
  Profiled world({of_speed(90)});
  world.engine_options.rounds = 1;
  ASSERT_TRUE(world.run());
  record::ProfileReport mine;
  mine.tool = "ncu";
  mine.verdict = "mine";
  ASSERT_TRUE(keep_profile(world.state(), world.path(), mine));
  EXPECT_EQ((*profile_of_incumbent(world.state(), world.path()))->verdict, "mine");
}

// Each a journal that no campaign wrote.
TEST(Profiling, TheFoldRefusesProfilesThatCannotBe) {
  Profiled world({of_speed(150)});
  world.engine_options.rounds = 1;
  ASSERT_TRUE(world.run());
  const State state = world.state();
  record::Profiled good;
  good.trigger = "end";
  good.artifact = state.incumbent.build.artifact;
  good.note = "none";
  const auto folded = [&](const record::Profiled& one) {
    State copy = state;
    record::Event event;
    event.sequence = state.events;
    event.kind = record::EventKind::kProfiled;
    event.payload = record::to_json(one);
    return apply(copy, event).ok();
  };
  EXPECT_TRUE(folded(good));
  record::Profiled other = good;
  other.artifact = make_build(make_candidate(77)).artifact;
  EXPECT_FALSE(folded(other));
  record::Profiled both = good;
  both.report = record::ProfileReport{};
  EXPECT_FALSE(folded(both));
  record::Profiled neither = good;
  neither.note.clear();
  EXPECT_FALSE(folded(neither));
}

}  // namespace
}  // namespace ridge::campaign::test
