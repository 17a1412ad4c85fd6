#include "campaign/gates.h"

#include <limits>

#include "campaign/decide.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::GateOutcome;

// An honest candidate that is half as fast again; every test below bends one thing.
GateInput honest(std::int64_t speed = 150) {
  const record::Candidate incumbent = make_candidate(100), candidate = make_candidate(speed);
  GateInput input;
  input.labels = kShapes;
  input.candidate_id = candidate.id();
  input.incumbent_id = incumbent.id();
  input.incumbent_artifact = make_build(incumbent).artifact;
  input.bucket = "K1";
  input.bounds = make_roofline(incumbent);
  input.rebuilds = true;
  input.evaluation = make_evaluation(incumbent, candidate);
  input.evaluation.rebuild = record::Rebuild{make_build(candidate).artifact, make_build(incumbent).artifact, {}, 1};
  return input;
}

record::GateResult verdict(const GateInput& input, std::string_view gate) {
  for (const DecisionGate& one : gates()) {
    if (one.name == gate) return one.check(input);
  }
  ADD_FAILURE() << "no gate " << gate;
  return {};
}
bool accepted(const GateInput& input) {
  for (const DecisionGate& gate : gates()) {
    if (gate.check(input).outcome != GateOutcome::kPass) return false;
  }
  return true;
}

TEST(DecisionGate, LetsAnHonestGainThrough) {
  for (const DecisionGate& gate : gates()) {
    const record::GateResult result = gate.check(honest());
    EXPECT_EQ(result.outcome, GateOutcome::kPass) << gate.name << ": " << result.detail;
  }
}

// 4294967297 decisions, narrowed to 32 bits, were 1: the evidence needed was 20 instead of 2400.
TEST(DecisionGate, RefusesAnErrorBudgetThatOverflows) {
  for (const std::int64_t planned :
       {std::int64_t{4294967297}, std::int64_t{121}, std::int64_t{0}, std::int64_t{-4294967295}}) {
    GateInput input = honest();
    input.protocol.max_decisions = planned;
    input.evaluation.sessions.resize(8);  // seven wins: evidence 53
    EXPECT_EQ(verdict(input, "error budget").outcome, GateOutcome::kFail) << planned;
    EXPECT_NE(verdict(input, "effect").outcome, GateOutcome::kPass) << planned;
    EXPECT_GE(sequential_rule(input.protocol).needed(), 2400) << planned;
    EXPECT_FALSE(stats::validate(sequential_rule(input.protocol))) << planned;
  }
  GateInput input = honest();
  input.evaluation.sessions.resize(8);
  input.protocol.max_decisions = 1;  // what it was narrowed to: these sessions are enough for one decision
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kPass);
}

TEST(DecisionGate, RefusesASessionLimitThatOverflows) {
  GateInput input = honest();
  input.protocol.max_sessions = 4294967296 + 32;
  EXPECT_NE(verdict(input, "effect").outcome, GateOutcome::kPass);
}

// A cache that was written to: the object of either arm is not what its sources make.
TEST(DecisionGate, RefusesObjectsThatTheSourcesDoNotMakeAgain) {
  GateInput input = honest();
  input.evaluation.rebuild->candidate = "another";
  EXPECT_EQ(verdict(input, kRebuildGate).outcome, GateOutcome::kFail);
  EXPECT_NE(verdict(input, kRebuildGate).detail.find(input.evaluation.build.artifact), std::string::npos);
  EXPECT_NE(verdict(input, kRebuildGate).detail.find("another"), std::string::npos);
  EXPECT_FALSE(judge(input).accepted);
  EXPECT_EQ(judge(input).outcome, record::Outcome::kHarnessFault);
  constexpr std::string_view kOff[] = {kRebuildGate};
  EXPECT_TRUE(judge(input, kOff).accepted) << "the gate alone stops it";
  input = honest();
  input.evaluation.rebuild->incumbent = "slower";
  EXPECT_EQ(verdict(input, kRebuildGate).outcome, GateOutcome::kFail);
  EXPECT_TRUE(judge(input, kOff).accepted);
}

TEST(DecisionGate, IsNotSureWithoutARebuild) {
  GateInput input = honest();
  input.evaluation.rebuild->error = "no compiler";
  EXPECT_EQ(verdict(input, kRebuildGate).outcome, GateOutcome::kInconclusive);
  input.evaluation.rebuild.reset();
  EXPECT_EQ(verdict(input, kRebuildGate).outcome, GateOutcome::kInconclusive);
  input = honest();
  input.evaluation.incumbent_artifact.reset();
  EXPECT_EQ(verdict(input, kRebuildGate).outcome, GateOutcome::kInconclusive);
  EXPECT_FALSE(judge(input).accepted);
  input.rebuilds = false;  // a campaign that began before there was this gate
  EXPECT_TRUE(judge(input).accepted);
  for (const record::GateResult& one : judge(input).gates) EXPECT_NE(one.gate, kRebuildGate);
}

TEST(DecisionGate, RefusesFasterButWrong) {
  GateInput input = honest();
  input.evaluation.checks[1].outcome = record::Outcome::kWrong;
  EXPECT_EQ(verdict(input, "correctness").outcome, GateOutcome::kFail);
  input = honest();
  input.evaluation.checks[1].max_error_ratio = 1.01;  // says PASS all the same
  EXPECT_EQ(verdict(input, "correctness").outcome, GateOutcome::kFail);
  input.evaluation.checks[1].max_error_ratio = std::nan("");
  EXPECT_EQ(verdict(input, "correctness").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesWhatTheWorkerSaysCrashedHungOrCheated) {
  for (const auto outcome : {record::Outcome::kCrash, record::Outcome::kHang, record::Outcome::kOom,
                             record::Outcome::kCheat, record::Outcome::kWrong}) {
    GateInput input = honest();
    input.evaluation.outcome = outcome;
    EXPECT_EQ(verdict(input, "correctness").outcome, GateOutcome::kFail) << record::name_of(outcome);
  }
}

TEST(DecisionGate, RefusesADroppedRenamedRepeatedOrAddedShape) {
  for (int kind = 0; kind < 4; ++kind) {
    GateInput input = honest();
    std::vector<record::ShapeSamples>& shapes = input.evaluation.sessions[3].shapes;
    if (kind == 0) shapes.pop_back();
    if (kind == 1) shapes[1].label = "m=257 n=256 k=256";
    if (kind == 2) shapes[1] = shapes[0];
    if (kind == 3) shapes.push_back({"m=1 n=1 k=1", shapes[0].quads});
    EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail) << kind;
    EXPECT_FALSE(accepted(input));
  }
}

TEST(DecisionGate, ASessionIsDecidedOnTheColumnOfThePrimaryMetricAndOnNoOther) {
  using Holds = record::ColumnSamples::Holds;
  GateInput input = honest();
  for (record::Session& session : input.evaluation.sessions)
    session.columns.push_back({"Tokens/s", Holds::kLower, session.shapes});
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail);  // it was never asked for
  EXPECT_NE(verdict(input, "labels").detail.find("which is not the primary metric"), std::string::npos);
  input.metric = record::parse_metric("forward_tflops").value();
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail);
  input.metric = record::parse_metric("column:Tokens/s:lower").value();
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kPass) << verdict(input, "labels").detail;
  for (const char* const other : {"column:Tokens/s:higher", "column:Joule:lower"}) {
    input.metric = record::parse_metric(other).value();
    EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail) << other;
  }
  input.metric = record::parse_metric("column:Tokens/s:lower").value();
  input.evaluation.sessions.back().columns.clear();
  EXPECT_NE(verdict(input, "labels").detail.find("lacks the column \"Tokens/s\""), std::string::npos);
}

TEST(DecisionGate, ABaselineWithoutANumberIsNoExactOne) {
  GateInput input = honest();
  for (record::Session& session : input.evaluation.sessions) {
    session.columns.push_back({"out_snr", record::ColumnSamples::Holds::kDecibel, session.shapes});
    for (record::ShapeSamples& shape : session.columns.back().shapes) {
      for (record::Quad& quad : shape.quads) {
        for (std::vector<double>& block : quad.blocks) block.assign(block.size(), 60);
      }
    }
  }
  input.noise.baseline = {{"out_snr", kShapes[0], NAN}};
  EXPECT_EQ(verdict(input, "correctness").outcome, GateOutcome::kPass) << verdict(input, "correctness").detail;
  input.noise.baseline[0].worst = INFINITY;
  EXPECT_EQ(verdict(input, "correctness").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesADirectionLessThanTheBaselineHas) {
  GateInput input = honest();
  for (record::Session& session : input.evaluation.sessions)
    session.columns.push_back({"backward", record::ColumnSamples::Holds::kSeconds, session.shapes});
  input.directions = directions_of(input.evaluation.sessions.front(), input.labels);
  EXPECT_EQ(input.directions.size(), input.labels.size());
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kPass) << verdict(input, "labels").detail;
  for (record::Session& session : input.evaluation.sessions) session.columns.clear();
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail);
  EXPECT_NE(verdict(input, "labels").detail.find("backward"), std::string::npos) << verdict(input, "labels").detail;
}

TEST(DecisionGate, RefusesAShapeThatWasNotCheckedOrCheckedTwice) {
  GateInput input = honest();
  input.evaluation.checks.pop_back();
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail);
  input = honest();
  input.evaluation.checks[2] = input.evaluation.checks[0];
  EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesALaunchThatIsNotATime) {
  for (const double bad : {std::nan(""), 0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    GateInput input = honest();
    input.evaluation.sessions[2].shapes[1].quads[0].blocks[3][1] = bad;
    EXPECT_EQ(verdict(input, "labels").outcome, GateOutcome::kFail) << bad;
    EXPECT_FALSE(accepted(input));
  }
}

TEST(DecisionGate, RefusesMissingOrRepeatedSessions) {
  GateInput input = honest();
  input.evaluation.sessions.erase(input.evaluation.sessions.begin() + 4);
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kFail);
  input = honest();
  input.evaluation.sessions[5].index = 4;
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, VoidingSessionsIsBoundedAndNeedsAReason) {
  GateInput input = honest();
  input.evaluation.sessions[4].voided = true;
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kFail);
  for (record::Session& session : input.evaluation.sessions) {
    session.voided = true;
    session.void_reason = "throttle";
    session.guards["throttle"] = 1;
  }
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kInconclusive);
}

// A choice of which sessions count could make any candidate win.
TEST(DecisionGate, RefusesASessionThatIsVoidWithoutItsGuards) {
  GateInput input = honest();
  input.evaluation.sessions[4].voided = true;
  input.evaluation.sessions[4].void_reason = "the machine was busy";
  input.evaluation.sessions[4].guards = {{"steal_fraction", 0.01}, {"foreign_load", 0.02}, {"clock_gap", 0.001}};
  const record::GateResult result = verdict(input, "sessions");
  EXPECT_EQ(result.outcome, GateOutcome::kFail);
  EXPECT_NE(result.detail.find("its guards are not"), std::string::npos);
  EXPECT_FALSE(accepted(input));
}

TEST(DecisionGate, RefusesASessionThatCountsAgainstItsGuards) {
  for (const char* guard : {"clock_gap", "steal_fraction", "foreign_load", "throttle"}) {
    GateInput input = honest();
    input.protocol.decision_rule = record::Protocol::kVoiding;
    input.evaluation.sessions[4].guards[guard] = 0.5;
    EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kFail) << guard;
  }
}

TEST(DecisionGate, LoadAndStealVoidNothingWhereGapsAreCharged) {
  GateInput input = honest();
  for (record::Session& session : input.evaluation.sessions) {
    session.guards = {{"steal_fraction", 0.2}, {"foreign_load", 0.9}, {"clock_gap", 0.003}};
  }
  EXPECT_TRUE(accepted(input));
  input.evaluation.sessions[4].guards["throttle"] = 1;
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kFail);  // it counts
}

TEST(DecisionGate, AGapBetweenTheClocksIsChargedToTheEffectAndToTheShapes) {
  GateInput input = honest();  // half as fast again
  const auto with_gap = [&](double gap) {
    for (record::Session& session : input.evaluation.sessions) session.guards["clock_gap"] = gap;
  };
  with_gap(0.2);
  EXPECT_TRUE(accepted(input));
  with_gap(0.4);  // ln 1.5 is 0.405, the charge 0.51
  EXPECT_NE(verdict(input, "effect").outcome, GateOutcome::kPass);
  EXPECT_FALSE(accepted(input));
  input.evaluation = make_evaluation(make_candidate(100), make_candidate(150));
  with_gap(0.0095);
  EXPECT_NEAR(judge(input).effects[0].low, judge(honest()).effects[0].low * (1 - 0.0095), 1e-9);
  input.calibration.clock_gap = 0.0098;  // that is what equal kernels show here
  EXPECT_DOUBLE_EQ(judge(input).effects[0].low, judge(honest()).effects[0].low);
}

// Sessions that contradict each other refute nothing.
TEST(DecisionGate, AGainThatNoiseHidesIsInconclusiveAndNotSlower) {
  GateInput input = honest(150);
  for (std::size_t i = 1; i < input.evaluation.sessions.size(); ++i) {
    const std::int64_t speed = i % 3 == 0 ? 80 : 130;
    input.evaluation.sessions[i] =
        make_session(make_candidate(100), make_candidate(speed), static_cast<std::int64_t>(i), "confirm");
  }
  while (input.evaluation.sessions.size() < 33) {
    const auto index = static_cast<std::int64_t>(input.evaluation.sessions.size());
    const std::int64_t speed = index % 3 == 0 ? 80 : 130;
    input.evaluation.sessions.push_back(make_session(make_candidate(100), make_candidate(speed), index, "confirm"));
  }
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kInconclusive);
  EXPECT_NE(verdict(input, "effect").detail.find("too noisy to tell"), std::string::npos);
  input.protocol.decision_rule = record::Protocol::kVoiding;
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, AClockGapVoidsByTheFirstRuleAndIsAllowedOnlySoOften) {
  GateInput input = honest();
  input.protocol.decision_rule = record::Protocol::kVoiding;
  const auto void_first = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      record::Session& session = input.evaluation.sessions[i];
      session.voided = true;
      session.void_reason = "clock_gap";
      session.guards["clock_gap"] = 0.0051;
    }
  };
  void_first(6);  // 20 % of 32
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kPass);
  void_first(7);
  EXPECT_EQ(verdict(input, "sessions").outcome, GateOutcome::kInconclusive);
}

TEST(DecisionGate, FewerSessionsThanTheEvidenceNeedsAreInconclusive) {
  GateInput input = honest();
  input.evaluation.sessions.pop_back();
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kInconclusive);
  EXPECT_FALSE(accepted(input));
}

TEST(DecisionGate, AScreeningSessionIsNoEvidence) {
  GateInput input = honest();
  for (record::Session& session : input.evaluation.sessions) session.role = "screen";
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kInconclusive);
}

// The noise of a glance may hide a gain; the closer look that follows it counts, whichever way it falls.
TEST(DecisionGate, TheLastScreeningSessionCounts) {
  const record::Candidate incumbent = make_candidate(100);
  const auto with_screens = [&](std::int64_t first, std::int64_t second) {
    GateInput input = honest();
    std::vector<record::Session>& sessions = input.evaluation.sessions;
    for (record::Session& session : sessions) ++session.index;
    sessions[0] = make_session(incumbent, make_candidate(first), 0, "screen");
    sessions.insert(sessions.begin() + 1, make_session(incumbent, make_candidate(second), 1, "screen"));
    return verdict(input, "effect").outcome;
  };
  EXPECT_EQ(with_screens(95, 150), GateOutcome::kPass);
  EXPECT_EQ(with_screens(150, 95), GateOutcome::kFail);
}

TEST(DecisionGate, ATieIsNotAGainHoweverItIsSummarised) {
  GateInput input = honest(100);
  input.evaluation.outcome = record::Outcome::kPass;
  input.evaluation.detail = "accepted, 899 % faster";
  input.evaluation.roofline[0].latency = 1e-9;  // forged summaries decide nothing
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesARegressionOfOneShapeInAFasterSuite) {
  GateInput input = honest(200);
  for (record::Session& session : input.evaluation.sessions) {
    for (record::Quad& quad : session.shapes[0].quads) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (quad.order[i] == 'B')
          for (double& t : quad.blocks[i]) t *= 2.2;  // 10 % slower than the incumbent
      }
    }
  }
  EXPECT_EQ(verdict(input, "effect").outcome, GateOutcome::kPass);
  const record::GateResult result = verdict(input, "non-inferiority");
  EXPECT_EQ(result.outcome, GateOutcome::kFail);
  EXPECT_NE(result.detail.find(kShapes[0]), std::string::npos);
}

TEST(DecisionGate, ANoisyShapeThatMayHaveRegressedIsInconclusive) {
  GateInput input = honest(200);
  for (std::size_t s = 0; s < input.evaluation.sessions.size(); ++s) {
    for (record::Quad& quad : input.evaluation.sessions[s].shapes[0].quads) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (quad.order[i] == 'B')
          for (double& t : quad.blocks[i]) t *= s % 2 == 0 ? 3.0 : 1.0;
      }
    }
  }
  EXPECT_NE(verdict(input, "non-inferiority").outcome, GateOutcome::kPass);
}

TEST(DecisionGate, RefusesATimeUnderTheRooflineFloor) {
  GateInput input = honest(1200);  // the floor is at 1000
  EXPECT_EQ(verdict(input, "physics").outcome, GateOutcome::kFail);
  EXPECT_EQ(verdict(honest(900), "physics").outcome, GateOutcome::kPass);
}

TEST(DecisionGate, ACeilingOfABusyMachineIsALowerBound) {
  GateInput input = honest(1800);  // the floor is at 1000
  EXPECT_EQ(verdict(input, "physics").outcome, GateOutcome::kFail);
  input.disturbed = "others used 44 % of the processors";
  EXPECT_EQ(verdict(input, "physics").outcome, GateOutcome::kPass);
  EXPECT_NE(verdict(input, "physics").detail.find("others used 44 %"), std::string::npos);
  input.evaluation = make_evaluation(make_candidate(100), make_candidate(2100));
  input.candidate_id = make_candidate(2100).id();
  EXPECT_EQ(verdict(input, "physics").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesTimedCallsThatWereNotVerified) {
  GateInput input = honest();
  input.evaluation.checks[0].verified_calls = 0;
  EXPECT_EQ(verdict(input, "verified calls").outcome, GateOutcome::kFail);
  input.evaluation.checks[0].verified_calls = 5;  // fewer than were timed
  EXPECT_EQ(verdict(input, "verified calls").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesTheDecisionAfterTheLastOfTheErrorBudget) {
  GateInput input = honest();
  input.decisions_used = 119;
  EXPECT_EQ(verdict(input, "error budget").outcome, GateOutcome::kPass);
  input.decisions_used = 120;
  const record::GateResult result = verdict(input, "error budget");
  EXPECT_EQ(result.outcome, GateOutcome::kFail);
  EXPECT_NE(result.detail.find("decision 121 is refused"), std::string::npos);
}

TEST(DecisionGate, RefusesAStaleBuildAndAChangeWithoutEffect) {
  GateInput input = honest();
  input.evaluation.build.artifact = input.incumbent_artifact;
  EXPECT_EQ(verdict(input, "artifact").outcome, GateOutcome::kFail);
  input = honest();
  input.evaluation.build.artifact.clear();
  EXPECT_EQ(verdict(input, "build").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesTheEvaluationOfSomethingElse) {
  GateInput input = honest();
  input.evaluation.candidate = make_candidate(151).id();
  EXPECT_EQ(verdict(input, "build").outcome, GateOutcome::kFail);
  input = honest();
  input.evaluation.incumbent = make_candidate(10).id();
  EXPECT_EQ(verdict(input, "build").outcome, GateOutcome::kFail);
}

TEST(DecisionGate, RefusesGainsThatTrainingCannotHave) {
  GateInput input = honest();
  for (const char* bucket : {"W2", "W3", "", "K5"}) {
    input.bucket = bucket;
    EXPECT_EQ(verdict(input, "transfer").outcome, GateOutcome::kFail) << bucket;
  }
  input.bucket = "W1";
  EXPECT_EQ(verdict(input, "transfer").outcome, GateOutcome::kInconclusive);
}

TEST(DecisionGate, AWeightCacheNeedsTrainingStepsInWhichOnlyTheWeightHits) {
  GateInput input = honest();
  input.bucket = "W1";
  const record::TrainingTrace before{.steps = 8, .failed = 0, .step = 2e-3, .kernel = 4e-4, .weight = 3e-5};
  record::TrainingTrace now = before;
  now.weight_hits = 8;
  now.least_weight_hits = 1;
  input.evaluation.training = now;
  EXPECT_EQ(verdict(input, "transfer").outcome, GateOutcome::kInconclusive);  // no bound
  input.evaluation.incumbent_training = before;
  EXPECT_EQ(verdict(input, "transfer").outcome, GateOutcome::kPass);
  EXPECT_NE(verdict(input, "transfer").detail.find("at most 1.50 % of a step"), std::string::npos);
  for (const auto& spoil :
       {+[](record::TrainingTrace& t) { t.tensor_hits = 1; }, +[](record::TrainingTrace& t) { t.failed = 1; },
        +[](record::TrainingTrace& t) { t.least_weight_hits = 0; }}) {
    record::TrainingTrace spoilt = now;
    spoil(spoilt);
    input.evaluation.training = spoilt;
    EXPECT_EQ(verdict(input, "transfer").outcome, GateOutcome::kFail);
  }
}

TEST(DecisionGate, AHarnessFaultIsInconclusiveAndNeverAPass) {
  GateInput input = honest();
  input.evaluation.outcome = record::Outcome::kHarnessFault;
  EXPECT_EQ(verdict(input, "build").outcome, GateOutcome::kInconclusive);
  EXPECT_FALSE(accepted(input));
}

TEST(DecisionGate, AnEmptyEvaluationPassesNothingThatMatters) {
  GateInput input = honest();
  input.evaluation = {};
  for (const char* gate :
       {"build", "correctness", "verified calls", "labels", "sessions", "effect", "non-inferiority", "physics"}) {
    EXPECT_NE(verdict(input, gate).outcome, GateOutcome::kPass) << gate;
  }
}

TEST(PlainRule, AsksForThreeRemeasurementsBelowTwoPercent) {
  const std::vector<std::string> labels = {"one"};
  const auto table = [](std::vector<double> gains) {
    RatioTable t;
    for (double& gain : gains) gain = std::log1p(gain);
    t.suite = gains;
    t.per_shape = {gains};
    return t;
  };
  EXPECT_TRUE(plain_rule(table({0.03}), labels).accepts);
  EXPECT_FALSE(plain_rule(table({0.015, 0.015}), labels).accepts);
  EXPECT_TRUE(plain_rule(table({0.015, 0.014, 0.016}), labels).accepts);
  EXPECT_FALSE(plain_rule(table({0.03, 0.005, 0.01}), labels).accepts);
  EXPECT_FALSE(plain_rule(table({-0.001, 0.0, -0.002}), labels).accepts);
  RatioTable lost = table({0.10, 0.10, 0.10});
  lost.per_shape = {{std::log(0.94), std::log(0.94), std::log(0.94)}};
  EXPECT_FALSE(plain_rule(lost, labels).accepts);
}

}  // namespace
}  // namespace ridge::campaign::test
