// The machine is calibrated before the first decision and again while a campaign runs; a biased one stops it.
#include "campaign/calibration.h"
#include "campaign/standing.h"

#include <gmock/gmock.h>

#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::EventKind;
using record::WorkerTask;
using ::testing::HasSubstr;

std::vector<record::Calibrated> calibrations(const std::filesystem::path& campaign) {
  std::vector<record::Calibrated> found;
  const record::JournalText journal = *record::read_journal(campaign / "journal.jsonl");
  for (const record::Event& event : journal.events) {
    if (event.kind != EventKind::kCalibrated) continue;
    found.push_back(*record::from_json<record::Calibrated>(event.payload, "calibrated"));
  }
  return found;
}

// A machine on which the second arm is slower by `bias` in calibrations `from` .. `end` - 1, although nothing differs.
void favour_an_arm(World& world, double bias, int from, int end = 1000) {
  auto count = std::make_shared<int>(0);
  world.executor.on(WorkerTask::kCalibrate, [=](const record::WorkerRequest& request) {
    record::WorkerResponse response = calibrate(request);
    const int number = (*count)++;
    if (number < from || number >= end) return response;
    for (record::Session& session : response.sessions) {
      for (record::ShapeSamples& shape : session.shapes) {
        for (record::Quad& quad : shape.quads) {
          for (std::size_t i = 0; i < 4; ++i) {
            if (quad.order[i] == 'B')
              for (double& t : quad.blocks[i]) t *= 1 + bias;
          }
        }
      }
    }
    return response;
  });
}

std::vector<record::Proposal> slow_progress(int rounds) {
  std::vector<record::Proposal> proposals;
  double speed = 100;
  for (int i = 0; i < rounds; ++i) {
    speed *= 1.03;
    proposals.push_back(make_proposal({make_candidate(static_cast<std::int64_t>(speed + 0.5))}));
  }
  return proposals;
}

record::CampaignSpec long_spec() {
  record::CampaignSpec spec = make_spec();
  spec.max_iterations = 22;
  return spec;
}

TEST(Calibration, IsRepeatedAfterTwentyDecisionsOnTheIncumbent) {
  World world(one_per_round(slow_progress(22)), long_spec());
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  const std::vector<record::Calibrated> again = calibrations(world.path());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].calibration.healthy) << again[0].calibration.reason;
  EXPECT_EQ(again[0].candidate, world.state().rounds[19].last().candidate()->id());
  EXPECT_EQ(world.state().calibrated_decisions, 20);
}

TEST(Calibration, IsRepeatedWhenTheIncumbentIsMuchFaster) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(310)})}));
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  ASSERT_EQ(calibrations(world.path()).size(), 1u);
  EXPECT_EQ(calibrations(world.path())[0].candidate, make_candidate(310).id());
}

TEST(Calibration, PlansTheSessionsOfTheRoundsThatFollow) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  int seen = 0;
  for (const record::WorkerRequest& request : world.executor.requests()) {
    if (request.task != WorkerTask::kEvaluate || request.quick_look) continue;
    ++seen;
    ASSERT_TRUE(request.calibration.has_value());
    EXPECT_EQ(request.calibration->noise, world.state().baseline->calibration.noise);
    EXPECT_GT(request.calibration->quads, 0);
  }
  EXPECT_EQ(seen, 1);
}

TEST(Calibration, ABiasedMachineStopsTheCampaignBeforeTheFirstDecision) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  favour_an_arm(world, 0.02, 0);
  const Result<RunResult> result = world.run();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->end, RunEnd::kPaused);
  EXPECT_THAT(result->reason, HasSubstr("this machine is biased"));
  EXPECT_THAT(result->reason, HasSubstr("ridge calibrate"));
  EXPECT_TRUE(world.state().rounds.empty());
  // It ends with a number all the same.
  ASSERT_TRUE(world.state().baseline);
  EXPECT_THAT(standing(world.state())[0], HasSubstr("Baseline: "));
}

// The evidence is kept, nothing is decided on that machine, and the campaign goes on when the machine is fair again.
TEST(Calibration, AMachineThatBecomesBiasedPausesTheCampaignUntilItIsFair) {
  World world(one_per_round(slow_progress(22)), long_spec());
  favour_an_arm(world, -0.02, 1);
  ASSERT_EQ(world.run()->end, RunEnd::kPaused);
  EXPECT_EQ(world.state().decisions_used, 20);
  EXPECT_THAT(*world.state().paused, HasSubstr("this machine is biased"));
  EXPECT_EQ(calibrations(world.path()).size(), 2u) << "shown twice";
  ASSERT_EQ(world.run()->end, RunEnd::kPaused);
  EXPECT_EQ(calibrations(world.path()).size(), 3u);
  world.executor.on(WorkerTask::kCalibrate, calibrate);
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  EXPECT_EQ(calibrations(world.path()).size(), 4u);
  EXPECT_EQ(world.state().decisions_used, 22);
}

// A fair machine seems to favour an arm in one calibration of a hundred.
TEST(Calibration, ABiasThatIsNotShownAgainDoesNotPause) {
  World world(one_per_round(slow_progress(22)), long_spec());
  favour_an_arm(world, -0.02, 1, 2);
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  const std::vector<record::Calibrated> measured = calibrations(world.path());
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_FALSE(fair(measured[0].calibration));
  EXPECT_TRUE(fair(measured[1].calibration));
  EXPECT_EQ(world.state().decisions_used, 22);
}

TEST(Calibration, SaysWhatWouldHelp) {
  record::Session session;
  session.guards = {{"steal_fraction", 0.03}, {"foreign_load", 0.08}, {"clock_gap", 0.004}};
  const record::Environment environment{{{"cpu.governor", "powersave"},
                                         {"cpu.usable", "1"},
                                         {"cpu.measured_siblings", "0,4"},
                                         {"cpu.quota", "1.50"},
                                         {"system.hypervisor", "yes"}}};
  std::string all;
  for (const std::string& line : what_would_help({session}, environment)) all += line + "\n";
  for (const char* word : {"hypervisor takes 3.0 %", "other programs use 8.0 %", "clock differs by 0.40 %", "powersave",
                           "only processor", "0,4", "1.50", "virtual machine"}) {
    EXPECT_THAT(all, HasSubstr(word));
  }
  EXPECT_TRUE(what_would_help({}, {}).empty());
}

std::vector<record::Session> calibration_sessions(int void_from) {
  std::vector<record::Session> sessions;
  for (int i = 0; i < 8; ++i) {
    sessions.push_back(make_session(make_candidate(100), make_candidate(100), i, "calibrate"));
    sessions.back().guards["clock_gap"] = 0.001 * i;
    sessions.back().voided = i >= void_from;
    sessions.back().void_reason = "throttle = 1 is outside 0..0";
  }
  return sessions;
}

TEST(Calibration, VoidSessionsDoNotCount) {
  const std::vector<record::Session> sessions = calibration_sessions(3);
  const record::Calibration calibration = *calibration_of(sessions, kShapes, {});
  EXPECT_EQ(calibration.sessions, 3);
  EXPECT_FALSE(calibration.healthy);
  EXPECT_TRUE(fair(calibration));  // too few to plan well, and no reason to stop
  EXPECT_DOUBLE_EQ(calibration.clock_gap, 0.0018);
}

TEST(Calibration, WithoutASessionNothingIsKnownAndThatIsSaid) {
  const std::vector<record::Session> sessions = calibration_sessions(0);
  const record::Calibration calibration = *calibration_of(sessions, kShapes, {});
  EXPECT_FALSE(fair(calibration));
  EXPECT_THAT(calibration_problem(calibration, sessions), HasSubstr("8 of 8 sessions were void"));
  EXPECT_THAT(calibration.reason, testing::Not(HasSubstr("nan")));
}

// Noise costs sessions, and is no reason to end with nothing.
TEST(Calibration, AMachineThatIsOnlyNoisyDoesNotStopACampaign) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  world.executor.on(WorkerTask::kCalibrate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response = calibrate(request);
    for (std::size_t i = 0; i < response.sessions.size(); ++i) {
      for (record::ShapeSamples& shape : response.sessions[i].shapes) {
        for (record::Quad& quad : shape.quads) {
          for (double& t : quad.blocks[quad.order[0] == 'B' ? 0 : 1]) t *= i % 2 == 0 ? 9.0 : 1.0 / 9;
        }
      }
    }
    return response;
  });
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  EXPECT_FALSE(world.state().baseline->calibration.healthy);
  EXPECT_TRUE(world.state().rounds[0].committed);
}

}  // namespace
}  // namespace ridge::campaign::test
