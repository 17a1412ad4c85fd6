// The final comparison once more on another device: it decides nothing, is lost without loss, and cannot be forged.
#include "campaign/replica.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "campaign/decide.h"
#include "campaign/machines.h"
#include "campaign/manifest.h"
#include "campaign/verify.h"
#include "forgery.h"
#include "report/report.h"

namespace ridge::campaign::test {
namespace {

using record::WorkerTask;
using testing::HasSubstr;

constexpr const char* kPlace = "ssh:other";

record::CampaignSpec replicated_spec() {
  record::CampaignSpec spec = make_spec();
  spec.extra[kReplicateOnKey] = yaml_text(kPlace);
  return spec;
}

record::WorkerResponse device(std::map<std::string, std::string> facts) {
  record::WorkerResponse response;
  response.environment = record::Environment{std::move(facts)};
  return response;
}

// A campaign that accepts one round, and another device with a worker of its own.
struct Devices {
  explicit Devices(record::CampaignSpec spec = replicated_spec())
      : world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")}),
              std::move(spec)) {
    world.replica = &there;
    there.on(WorkerTask::kDescribe, device({{"cpu.model", "othercpu"}, {"node.host", "other"}}));
    there.on(WorkerTask::kEvaluate,
             [](const record::WorkerRequest& request) { return evaluate_on(request, "elsewhere"); });
  }
  // The end of the campaign with a replica, which the test looks into.
  State run() {
    const Result<RunResult> done = world.run();
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(done->end, RunEnd::kDone);
    EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
    EXPECT_TRUE(replay_campaign(world.path())->ok());
    State state = world.state();
    EXPECT_TRUE(state.reported && state.replicated);
    return state;
  }
  std::string log() { return *read_file(world.path() / "logs/optimize.md"); }

  World world;
  execute::ScriptedExecutor there;
};

TEST(Replica, StandsBesideAResultThatItDoesNotChange) {
  Devices plain(make_spec()), devices;
  ASSERT_TRUE(plain.world.run());
  const State state = devices.run();
  EXPECT_EQ(outcome_of(state), outcome_of(plain.world.state()));
  EXPECT_FALSE(plain.world.state().replicated);
  EXPECT_EQ(devices.world.executor.requests().size(), plain.world.executor.requests().size());
  ASSERT_EQ(devices.there.requests().size(), 2u);
  const record::WorkerRequest& asked = devices.there.requests()[1];
  EXPECT_EQ(asked.incumbent->id(), state.final_measurement->initial);
  EXPECT_EQ(asked.candidates.at(0).id(), state.final_measurement->best);
  EXPECT_TRUE(asked.ceilings.empty()) << "those of another device";
  const record::Replicated& replica = *state.replicated;
  EXPECT_EQ(replica.place, kPlace);
  EXPECT_EQ(replica.environment.facts.at("node.host"), "other");
  ASSERT_EQ(replica.effects.size(), kShapes.size() + 1);
  EXPECT_NEAR(replica.effects[0].ratio, 1.5, 0.01);
  EXPECT_GE(replica.evaluation.sessions.size(), 3u);
  EXPECT_THAT(devices.log(), HasSubstr("- On another device, othercpu of host other: 1.5"));
  EXPECT_THAT(devices.log(), HasSubstr("it agrees on all 3 shapes\n"));
}

TEST(Replica, IsInEveryReport) {
  Devices devices;
  devices.there.on(WorkerTask::kDescribe, device({{"cpu.model", "testcpu"}, {"node.host", "other"}}));
  devices.run();
  const Result<report::Model> model = report::load(devices.world.path());
  ASSERT_TRUE(model) << model.error().text();
  ASSERT_TRUE(model->replica);
  EXPECT_EQ(model->replica->rows.size(), kShapes.size() + 1);
  const std::string kind = "On another device of the same kind, testcpu of host other: 1.5";
  for (const std::string& text : {report::html(*model), report::markdown(*model), report::status_text(*model)}) {
    EXPECT_THAT(text, HasSubstr(kind));
    EXPECT_THAT(text, HasSubstr("it agrees on all 3 shapes"));
  }
  EXPECT_THAT(report::json(*model), HasSubstr("\"agreement\": \"it agrees on all 3 shapes\""));
  EXPECT_THAT(report::markdown(*model),
              HasSubstr("| Shape | This device | Interval | The other | Interval | Differs |"));
}

// The other device has the baseline faster than the best.
TEST(Replica, SaysWhereTheOtherDeviceShowsALoss) {
  Devices devices;
  devices.there.on(WorkerTask::kEvaluate, [](record::WorkerRequest request) {
    record::Candidate slower = request.candidates.at(0);
    slower.defines["SPEED"] = 80;
    record::Evaluation evaluation = *evaluate_on(request, "elsewhere").evaluation;
    for (std::size_t i = 0; i < evaluation.sessions.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      evaluation.sessions[i] = make_session(*request.incumbent, slower, index, "confirm", kShapes, "elsewhere");
    }
    record::WorkerResponse response;
    response.evaluation = std::move(evaluation);
    return Result<record::WorkerResponse>(response);
  });
  const State state = devices.run();
  EXPECT_NEAR(state.replicated->effects[0].ratio, 0.8, 0.01);
  EXPECT_NEAR(state.final_measurement->effects[0].ratio, 1.5, 0.01) << "the campaign's own";
  EXPECT_THAT(devices.log(), HasSubstr("it differs on 3 of 3 shapes: m=64 n=64 k=64 (a loss there, a gain here)"));
}

TEST(Replica, OfAPlaceThatIsNotReachedIsANote) {
  Devices devices;
  devices.there.on(WorkerTask::kDescribe, [](const record::WorkerRequest&) {
    return Result<record::WorkerResponse>(make_error(ErrorCode::kTimeout, "ssh other: Connection refused"));
  });
  const State state = devices.run();
  EXPECT_EQ(state.replicated->note, "ssh other: Connection refused");
  EXPECT_FALSE(state.final_measurement->effects.empty());
  EXPECT_THAT(devices.log(), HasSubstr("Not measured on another device (ssh:other): ssh other: Connection refused"));
  EXPECT_THAT(report::markdown(*report::load(devices.world.path())), HasSubstr("Connection refused"));
}

TEST(Replica, WithoutAWayThereOrWithAKernelThatFailsThereIsANote) {
  Devices nowhere;
  nowhere.world.replica = nullptr;
  EXPECT_THAT(nowhere.run().replicated->note, HasSubstr("no way to reach"));
  Devices wrong;
  wrong.there.on(WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response;
    response.evaluation = make_evaluation(*request.incumbent, make_candidate(kIsWrong));
    return Result<record::WorkerResponse>(response);
  });
  EXPECT_EQ(wrong.run().replicated->note, "no session there counts: WRONG element 7 is 1.5, expected 2");
}

TEST(Replica, OnTheCampaignsOwnDeviceIsRefusedByName) {
  Devices devices;
  devices.there.on(WorkerTask::kDescribe, device({{"cpu.model", "testcpu"}}));  // of this host, as the campaign's
  const State state = devices.run();
  EXPECT_THAT(state.replicated->note, HasSubstr("is the device that the campaign measured on, testcpu of host "));
  EXPECT_EQ(devices.there.requests().size(), 1u) << "nothing was measured";
}

TEST(Replica, IsNotMadeWhereTheBaselineStands) {
  World world(one_per_round({make_proposal({make_candidate(90)})}), replicated_spec());
  ASSERT_TRUE(world.run());
  EXPECT_FALSE(world.state().replicated);
  EXPECT_TRUE(world.state().reported);
}

// What T5 keeps for the end.
std::string kept(World& world) {
  EXPECT_TRUE(world.run());
  const State state = world.state();
  for (const record::GateResult& one : state.termination->conditions) {
    if (one.gate.starts_with("T5")) return one.detail.substr(one.detail.find(" used, ") + 7);
  }
  return {};
}
TEST(Replica, ItsTimeIsKeptBeforeTheEnd) {
  record::CampaignSpec spec = make_spec(), both = replicated_spec();
  spec.wall_budget = both.wall_budget = 3600;
  Devices plain(spec), devices(both);
  const double one = std::stod(kept(plain.world)), two = std::stod(kept(devices.world));
  EXPECT_GT(two, one + 3) << "seconds";
}

TEST(Replica, IsNotMadeWhenNoTimeIsLeft) {
  record::CampaignSpec spec = replicated_spec();
  spec.wall_budget = 600;
  Devices devices(spec);
  devices.world.executor.on(WorkerTask::kBench, [&](const record::WorkerRequest& request) {
    devices.world.clock.advance(599);
    return bench(request);
  });
  const State state = devices.run();
  EXPECT_THAT(state.replicated->note, HasSubstr("no time was left in the budget: it takes about "));
  EXPECT_TRUE(devices.there.requests().empty());
  EXPECT_FALSE(state.final_measurement->peers.empty());
}

TEST(Replica, GetsAsMuchTimeAsIsLeft) {
  record::CampaignSpec spec = replicated_spec();
  spec.wall_budget = 600;
  Devices devices(spec);
  devices.run();
  const double limit = devices.there.requests().at(1).time_limit;
  EXPECT_GT(limit, 500);
  EXPECT_LT(limit, 600 - 2) << "what is kept for the report";
}

// An engine that dies while the other device works goes on with that alone.
TEST(Replica, OfAnEngineThatWasKilledIsMadeAgainAndTheFinalMeasurementIsNot) {
  struct Killed {};
  Devices devices;
  bool killed = false;
  devices.there.on(WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
    if (!std::exchange(killed, true)) throw Killed{};
    return Result<record::WorkerResponse>(evaluate_on(request, "elsewhere"));
  });
  EXPECT_THROW((void)devices.world.run(), Killed);
  const State between = devices.world.state();
  ASSERT_TRUE(between.final_measurement);
  EXPECT_TRUE(between.intents.contains("replica"));
  const std::size_t asked = devices.world.executor.requests().size();
  const State state = devices.run();
  EXPECT_EQ(devices.world.executor.requests().size(), asked);
  EXPECT_EQ(record::to_line(*state.final_measurement), record::to_line(*between.final_measurement));
  EXPECT_NEAR(state.replicated->effects.at(0).ratio, 1.5, 0.01);
}

// A pause between the two leaves a log that only grows.
TEST(Replica, MayBePausedAndGoesOn) {
  Devices devices;
  bool stopped = false, resumed = false;
  devices.world.engine_options.stop_level = [&] {
    return stopped && !resumed ? StopLevel::kFinishUnit : StopLevel::kNone;
  };
  devices.world.engine_options.unit_grace = -1;  // stopped at once
  devices.there.on(WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
    if (!std::exchange(stopped, true))
      return Result<record::WorkerResponse>(make_error(ErrorCode::kConflict, "stopped on request"));
    return Result<record::WorkerResponse>(evaluate_on(request, "elsewhere"));
  });
  const Result<RunResult> paused = devices.world.run();
  ASSERT_TRUE(paused) << paused.error().text();
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_FALSE(devices.world.state().replicated);
  const std::string before = devices.log();
  EXPECT_THAT(before, HasSubstr("- Final against baseline: 1.5"));
  resumed = true;
  devices.run();
  EXPECT_TRUE(devices.log().starts_with(before));
  EXPECT_FALSE(std::filesystem::exists(devices.world.path() / "logs/optimize.md.edited"));
}

TEST(Replica, OfAnExtendedCampaignIsMadeAnew) {
  record::CampaignSpec spec = replicated_spec();
  spec.max_iterations = 1;
  Devices devices(spec);
  devices.run();
  ASSERT_TRUE(extend_budget(devices.world.path(), {0, 2}, devices.world.clock));
  EXPECT_FALSE(devices.world.state().replicated);
  devices.there.on(WorkerTask::kEvaluate,
                   [](const record::WorkerRequest& request) { return evaluate_on(request, "elsewhere, later"); });
  devices.world.executor.on(WorkerTask::kEvaluate,
                            [](const record::WorkerRequest& request) { return evaluate_on(request, "later"); });
  const State state = devices.run();
  ASSERT_EQ(state.endings.size(), 1u);
  EXPECT_TRUE(state.endings[0].replicated);
  EXPECT_EQ(devices.there.requests().size(), 4u);
}

class ForgedReplica : public testing::Test {
 protected:
  void SetUp() override { devices.run(); }
  // What replay and verify say of a journal whose replica was bent and chained anew.
  void forge(const std::function<void(record::Replicated&)>& bend) {
    const std::filesystem::path journal = devices.world.path() / "journal.jsonl";
    std::vector<record::Event> events = record::read_journal(journal)->events;
    for (record::Event& event : events) {
      if (event.kind != record::EventKind::kReplicated) continue;
      auto replica = *record::from_json<record::Replicated>(event.payload);
      bend(replica);
      event.payload = record::to_json(replica);
    }
    write_chain(journal, std::move(events));
  }
  std::string replay() {
    const Result<ReplayReport> report = replay_campaign(devices.world.path());
    if (!report) return report.error().text();
    return report->differences.empty() ? std::string() : report->differences.at(0);
  }
  std::string verify() {
    const Result<VerifyReport> report = verify_campaign(devices.world.path());
    if (!report) return report.error().text();
    return report->ok() ? std::string() : report->text();
  }
  Devices devices;
};

TEST_F(ForgedReplica, AnHonestOneHolds) {
  forge([](record::Replicated&) {});
  EXPECT_EQ(replay(), "");
}

TEST_F(ForgedReplica, AnEffectIsFoundAThousandthOff) {
  forge([](record::Replicated& replica) { replica.effects.at(2).ratio *= 1.001; });
  EXPECT_EQ(replay(), "the effects on another device are not what their samples give");
  EXPECT_THAT(verify(), HasSubstr("logs/optimize.md"));
}

TEST_F(ForgedReplica, AnotherPlaceOrHostIsFound) {
  forge([](record::Replicated& replica) { replica.place = "ssh:third"; });
  EXPECT_EQ(replay(), "the final comparison was made again on ssh:third, and the manifest says ssh:other");
  forge([](record::Replicated& replica) {
    replica.place = kPlace;
    replica.environment.facts["node.host"] = "third";
  });
  EXPECT_THAT(verify(), HasSubstr("logs/optimize.md"));
  forge([](record::Replicated& replica) {
    replica.environment.facts = {{"node.host", replica.own_host}, {"cpu.model", "testcpu"}};
  });
  EXPECT_THAT(replay(), HasSubstr("is the campaign's own"));
}

TEST_F(ForgedReplica, AnotherKernelIsFound) {
  forge([](record::Replicated& replica) { std::swap(replica.evaluation.candidate, replica.evaluation.incumbent); });
  EXPECT_EQ(replay(), "what was compared on another device is not the best against the baseline");
}

TEST_F(ForgedReplica, SamplesOfTheFinalMeasurementAreFound) {
  const State state = devices.world.state();
  forge([&](record::Replicated& replica) {
    replica.evaluation.sessions = state.final_measurement->evaluation.sessions;
    for (record::Session& session : replica.evaluation.sessions) {
      for_each_launch(session, [](double& seconds) { seconds *= 1.01; });
    }
    replica.effects = final_effects(replica.evaluation, kShapes, guard_rule(state.spec().protocol));
  });
  EXPECT_EQ(replay(), "");  // the same ratios
  EXPECT_THAT(verify(), HasSubstr("again"));
}

TEST_F(ForgedReplica, ANoteInsteadOfALossIsFound) {
  forge([](record::Replicated& replica) {
    replica.effects.clear();
    replica.note = "it was not reached";
  });
  EXPECT_EQ(replay(), "the effects on another device are not what their samples give");
  forge([](record::Replicated& replica) { replica.note.clear(); });
  EXPECT_THAT(verify(), HasSubstr("it has effects, or says why it has none"));
}

TEST_F(ForgedReplica, OneBeforeTheFinalMeasurementIsRefused) {
  std::vector<record::Event> events = record::read_journal(devices.world.path() / "journal.jsonl")->events;
  const auto at = [&](record::EventKind kind) { return std::ranges::find(events, kind, &record::Event::kind); };
  std::iter_swap(at(record::EventKind::kReplicated), at(record::EventKind::kFinal));
  write_chain(devices.world.path() / "journal.jsonl", std::move(events));
  EXPECT_THAT(verify(), HasSubstr("there is no final measurement"));
}

}  // namespace
}  // namespace ridge::campaign::test
