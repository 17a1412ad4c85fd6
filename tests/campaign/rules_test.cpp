// Targets, termination, manifest and the rules of proposals.
#include <algorithm>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "campaign/lineage.h"
#include "campaign/manifest.h"
#include "campaign/proposal_rules.h"
#include "campaign/session_size.h"
#include "campaign/target.h"
#include "campaign/verify.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

TEST(Target, ReadsTheGrammar) {
  const struct {
    const char* text;
    const char* canonical;
    double value;
  } rows[] = {
      {"hw_efficiency >= 90%", "hw_efficiency >= 90% on geomean", 0.9},
      {"hw_efficiency>=0.9", "hw_efficiency >= 0.9 on geomean", 0.9},
      {"forward_tflops >= 600 on geomean", "forward_tflops >= 600 TFLOPS on geomean", 6e14},
      {"forward_tflops > 250 GFLOPS on all", "forward_tflops > 250 GFLOPS on all", 2.5e11},
      {"speedup >= 8x on any", "speedup >= 8x on any", 8},
      {"  speedup >= 8 ", "speedup >= 8x on geomean", 8},
      {"step 700 TFLOPS", "combined_step_tflops >= 700 TFLOPS on geomean", 7e14},
      {"step > 3.2 TB/s on all", "combined_step_gbps > 3.2 TB/s on all", 3.2e12},
      {"latency < 20 us", "latency < 20 us on geomean", 2e-5},
      {"latency_p99 1.5 ms on all", "latency_p99 <= 1.5 ms on all", 1.5e-3},
      {"forward_gbps 400", "forward_gbps >= 400 GB/s on geomean", 4e11},
      {"column:Tokens per second:higher >= 1200 on any", "column:Tokens per second:higher >= 1200 on any", 1200},
      {"95 % of the bandwidth ceiling", "bandwidth_efficiency >= 95% on geomean", 0.95},
      {"80% of the ceiling on all", "hw_efficiency >= 80% on all", 0.8}};
  for (const auto& row : rows) {
    const Result<record::Target> target = parse_target(row.text);
    ASSERT_TRUE(target) << target.error().text();
    EXPECT_DOUBLE_EQ(target->value, row.value) << row.text;
    EXPECT_EQ(format_target(*target), row.canonical);
    EXPECT_EQ(format_target(*parse_target(format_target(*target))), row.canonical);
  }
}

TEST(Target, RefusesProseWithTheWayOut) {
  for (const char* text : {"as fast as possible",
                           ">60% peak efficiency",
                           "2x baseline",
                           "",
                           "speedup",
                           "speedup >=",
                           "speedup >= fast",
                           "speedup <= 2x",
                           "speedup >= -1x",
                           "speedup >= 2 parsecs",
                           "speedup >= 2x on most",
                           "latency > 20 us",
                           "latency < 20 TFLOPS",
                           "95 % of the moon",
                           "95 of the ceiling",
                           "120 % of the ceiling",
                           "column:Tokens/s >= 3",
                           "speedup >= 2x on all please",
                           "hw_efficiency >= 120%",
                           "hw_efficiency >= 90",
                           "speedup >= nan"}) {
    const Result<record::Target> target = parse_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_NE(target.error().hint.find("metric op number unit"), std::string::npos);
  }
}

TEST(Target, ScopesAreAllAnyAndGeomean) {
  const std::vector<record::RooflinePoint> base = make_roofline(make_candidate(100));
  std::vector<record::RooflinePoint> best = make_roofline(make_candidate(400));
  best[0].latency *= 2;  // this one is only twice as fast
  const auto reached = [&](const char* text) { return check_target(*parse_target(text), best, base).reached; };
  EXPECT_TRUE(reached("speedup >= 2x on all"));
  EXPECT_FALSE(reached("speedup >= 2.1x on all"));
  EXPECT_TRUE(reached("speedup >= 4x on any"));
  EXPECT_TRUE(reached("speedup >= 3.17x on geomean"));
  EXPECT_FALSE(reached("speedup >= 3.18x on geomean"));
  EXPECT_TRUE(reached("hw_efficiency >= 20% on all"));
}

TEST(Target, OfEveryMetricIsReadFromTheDirections) {
  record::RooflinePoint point;
  point.label = "label=small";
  point.cost = {6e9, 0};
  point.latency = 30e-6;
  point.bound = "compute";
  point.bound_time = 15e-6;
  point.directions = {{"forward", {2e9, 0}, 5e-6, 10e-6}, {"backward", {4e9, 0}, 10e-6, 20e-6}};
  const record::Metric step = *record::parse_metric("combined_step_tflops");
  const auto reached = [&](const char* text) {
    const Result<record::Target> target = parse_target(text);
    EXPECT_TRUE(target) << text;
    return check_target(*target, {point}, {point}, step).reached;
  };
  EXPECT_TRUE(reached("step 200 TFLOPS"));
  EXPECT_FALSE(reached("step 201 TFLOPS"));
  EXPECT_TRUE(reached("latency <= 10.1 us"));
  EXPECT_FALSE(reached("latency < 9.9 us"));
  EXPECT_TRUE(reached("backward_tflops 199"));
  EXPECT_FALSE(reached("90 % of the bandwidth ceiling")) << "compute bounds it";
  EXPECT_TRUE(reached("50 % of the ceiling"));
  point.bound = "memory";
  EXPECT_TRUE(reached("50 % of the bandwidth ceiling"));
}

TEST(Target, OfTheBandwidthCeilingIsAboutTheShapesThatMemoryBounds) {
  record::RooflinePoint memory, compute;
  memory.label = "label=small";
  memory.cost = {0, 1e6};
  memory.latency = 20e-6;
  memory.bound = "memory";
  memory.bound_time = 19.2e-6;
  compute = memory;
  compute.label = "label=large";
  compute.bound = "compute";
  compute.bound_time = 2e-6;
  const record::Target target = *parse_target("95 % of the bandwidth ceiling");
  EXPECT_TRUE(check_target(target, {compute, memory}, {compute, memory}, {}).reached);
  memory.bound_time = 18e-6;
  EXPECT_FALSE(check_target(target, {compute, memory}, {compute, memory}, {}).reached);
  const TargetStatus none = check_target(target, {compute}, {compute}, {});
  EXPECT_FALSE(none.reached);
  EXPECT_EQ(none.detail, "no shape is bound by memory");
}

// State of a campaign after its baseline.
State fresh_state(record::CampaignSpec spec = make_spec()) {
  State state;
  state.created = record::Created{spec, make_candidate(100)};
  state.max_iterations = spec.max_iterations;
  state.wall_budget = spec.wall_budget;
  state.prepared = record::Prepared{};
  state.tips = record::TipsRead{};
  record::Baseline baseline;
  baseline.candidate = make_candidate(100);
  baseline.evaluation = make_evaluation(make_candidate(100), make_candidate(100));
  state.baseline = baseline;
  state.baseline_committed = record::Committed{1, "snapshot", "commit"};
  state.incumbent.candidate = make_candidate(100);
  state.incumbent.roofline = make_roofline(make_candidate(100));
  return state;
}

TEST(Termination, NoneHoldsAtFirst) {
  const record::Termination termination = check_termination(fresh_state(), {});
  EXPECT_EQ(termination.condition, "none");
  EXPECT_EQ(termination.conditions.size(), 6u);
}

TEST(Termination, T1PerformanceTarget) {
  State state = fresh_state();
  state.created->spec.performance_target = *parse_target("speedup >= 2x");
  EXPECT_EQ(check_termination(state, {}).condition, "none");
  state.incumbent.roofline = make_roofline(make_candidate(201));
  EXPECT_EQ(check_termination(state, {}).condition, "T1");
}

TEST(Termination, T2HardwareEfficiency) {
  State state = fresh_state();
  state.incumbent.roofline = make_roofline(make_candidate(899));
  EXPECT_EQ(check_termination(state, {}).condition, "none");
  state.incumbent.roofline = make_roofline(make_candidate(901));
  EXPECT_EQ(check_termination(state, {}).condition, "T2");
}

TEST(Termination, T3CountsAttemptsWithoutTheBaseline) {
  record::CampaignSpec spec = make_spec();
  spec.max_iterations = 2;
  World world(one_per_round({make_proposal({make_candidate(110)}, "a"), make_proposal({make_candidate(120)}, "b"),
                             make_proposal({make_candidate(130)}, "c")}),
              spec);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().termination->condition, "T3");
  EXPECT_EQ(world.state().rounds.size(), 2u);
}

TEST(Termination, T4UserStop) {
  World* there = nullptr;
  World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round == 3) {
      EXPECT_TRUE(request_stop(there->path()));
    }
    return make_proposal({make_candidate(100 + 10 * request.round)});
  });
  there = &world;
  ASSERT_TRUE(world.run());
  const State state = world.state();
  EXPECT_EQ(state.termination->condition, "T4");
  ASSERT_EQ(state.rounds.size(), 2u);
  EXPECT_TRUE(state.rounds[0].committed);
  EXPECT_TRUE(state.rounds[1].rolled_back);  // it was proposed, and never measured
  EXPECT_NE(state.rounds[1].decision->reason.find("stopped"), std::string::npos);
  EXPECT_TRUE(state.reported);
  EXPECT_FALSE(std::filesystem::exists(world.path() / "stop"));
}

TEST(Termination, T5WallBudgetKeepsTimeForTheFinalMeasurement) {
  record::CampaignSpec spec = make_spec();
  spec.wall_budget = 100;
  spec.max_iterations.reset();
  World world(
      [&](const record::ProposalRequest& request) -> Result<record::Proposal> {
        EXPECT_GT(request.seconds_left, 0);
        return make_proposal({make_candidate(100 + 5 * request.round)});
      },
      spec);
  world.executor.on(record::WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
    world.clock.advance(request.quick_look ? 3 : 12);
    if (!request.quick_look) {
      EXPECT_LE(request.time_limit, 100);
    }
    return evaluate(request);
  });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  EXPECT_EQ(state.termination->condition, "T5");
  EXPECT_LE(state.active, 112);
  EXPECT_GE(state.rounds.size(), 5u);
  EXPECT_FALSE(state.final_measurement->effects.empty());
}

TEST(Termination, T5ErrorBudgetIsADecisionNotATime) {
  State state = fresh_state();
  state.decisions_used = 120;
  EXPECT_EQ(check_termination(state, {}).condition, "T5");
}

TEST(Termination, BudgetsCountActiveTimeOnly) {
  record::CampaignSpec spec = make_spec();
  spec.wall_budget = 50;
  bool broken = true;
  World world(
      [&](const record::ProposalRequest& request) -> Result<record::Proposal> {
        if (broken) return invalid("broken");
        return one_per_round({make_proposal({make_candidate(150)})})(request);
      },
      spec);
  ASSERT_EQ(world.run()->end, RunEnd::kPaused);
  world.clock.advance(1000);  // paused over night
  broken = false;
  ASSERT_TRUE(world.run());
  EXPECT_TRUE(world.state().rounds.at(0).committed);
}

TEST(Signal, TheFirstFinishesTheUnitPausesAndResumes) {
  StopLevel level = StopLevel::kNone;
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(200)})}));
  world.engine_options.stop_level = [&] { return level; };
  world.executor.on(record::WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
    if (request.candidates[0].defines.at("SPEED") == 150) level = StopLevel::kFinishUnit;
    return evaluate(request);
  });
  const Result<RunResult> paused = world.run();
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  State state = world.state();
  EXPECT_EQ(phase_of(state), record::Phase::kPaused);
  ASSERT_EQ(state.rounds.size(), 1u);
  EXPECT_TRUE(state.rounds[0].committed);  // the unit was finished and counted
  level = StopLevel::kNone;
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().rounds.size(), 2u);
}

TEST(Signal, TheSecondLeavesAtOnceAndLosesNothing) {
  StopLevel level = StopLevel::kNone;
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  world.engine_options.stop_level = [&] { return level; };
  world.executor.on(record::WorkerTask::kEvaluate,
                    [&](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
                      if (request.quick_look || level != StopLevel::kNone) return evaluate(request);
                      level = StopLevel::kNow;
                      return Error{ErrorCode::kTimeout, "stopped", {}};
                    });
  EXPECT_EQ(world.run()->end, RunEnd::kInterrupted);
  EXPECT_TRUE(world.state().open_round());
  level = StopLevel::kNone;
  world.executor.on(record::WorkerTask::kEvaluate, evaluate);
  ASSERT_TRUE(world.run());
  EXPECT_TRUE(world.state().rounds[0].committed);
}

TEST(Signal, PauseIsHonouredBeforeTheNextMeasurementAndResumeGoesOn) {
  World* there = nullptr;
  World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round == 3) {
      EXPECT_TRUE(request_pause(there->path()));
    }
    return request.round > 3 ? nothing_left() : make_proposal({make_candidate(100 + 10 * request.round)});
  });
  there = &world;
  const Result<RunResult> paused = world.run();
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_EQ(paused->reason, "the user asked to pause");
  EXPECT_TRUE(world.state().open_round());    // proposed, not measured yet
  EXPECT_FALSE(request_pause(world.path()));  // nothing runs
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().rounds.size(), 2u);
  EXPECT_TRUE(world.state().rounds[1].committed);
}

TEST(Signal, ACampaignThatHasEndedCannotBeStopped) {
  World world(one_per_round({make_proposal({make_candidate(150)}, "one")}));
  ASSERT_TRUE(world.run());
  for (const Status& asked : {request_stop(world.path()), request_stop_after(world.path(), 1)}) {
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, ErrorCode::kConflict);
    EXPECT_NE(asked.error().message.find("has ended"), std::string::npos) << asked.error().message;
  }
  ASSERT_TRUE(extend_budget(world.path(), {world.state().wall_budget, 3}, world.clock));
  ASSERT_TRUE(world.run());
  EXPECT_NE(world.state().termination->condition, "T4");  // nothing was left for the next process to find
}

TEST(Signal, HarnessFaultsInARowPauseTheCampaignAfterAFewRounds) {
  std::int64_t working = 0;
  World world([](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round > 100) return nothing_left();
    return make_proposal({make_candidate(100 + request.round), make_candidate(101 + request.round)},
                         "sweep " + std::to_string(request.round));
  });
  world.executor.on(record::WorkerTask::kScreen, [&](const record::WorkerRequest& request) {
    if (working-- > 0) return screen(request);
    record::WorkerResponse broken;
    broken.error = "this executor cannot screen";
    return broken;
  });
  const Result<RunResult> paused = world.run();
  ASSERT_TRUE(paused) << paused.error().text();
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_NE(paused->reason.find("nothing could be measured in 3 rounds in a row"), std::string::npos) << paused->reason;
  EXPECT_NE(paused->reason.find("cannot screen"), std::string::npos) << paused->reason;
  EXPECT_EQ(world.state().rounds.size(), 3u);
  working = 1;  // put right for one round: the count begins again
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().rounds.size(), 7u);
}

TEST(Signal, StopAfterEndsInGoodOrderWhenTheRoundsAreClosed) {
  World world([](const record::ProposalRequest& request) -> Result<record::Proposal> {
    return make_proposal({make_candidate(100 + 10 * request.round)});
  });
  ASSERT_TRUE(world.create());
  EXPECT_FALSE(request_stop_after(world.path(), 0));
  ASSERT_TRUE(request_stop_after(world.path(), 2));
  ASSERT_TRUE(world.run());
  const State state = world.state();
  EXPECT_EQ(state.rounds.size(), 2u);
  EXPECT_EQ(state.termination->condition, "T4");
  EXPECT_TRUE(state.reported);
  EXPECT_FALSE(std::filesystem::exists(world.path() / "stop-after"));
}

TEST(Manifest, RoundTripsAndKeepsUnknownKeys) {
  record::CampaignSpec spec = make_spec();
  spec.performance_target = *parse_target("hw_efficiency >= 85% on all");
  spec.wall_budget = 300;
  spec.created = "2026-11-21 07:30";
  spec.extra["models"] = "[llama, dsv3]";
  const std::string text = render_manifest(spec);
  const Result<record::CampaignSpec> read = parse_manifest(text);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(render_manifest(*read), text);
  EXPECT_EQ(spec_digest(*read), spec_digest(spec));
  EXPECT_EQ(differing_keys(*read, spec), "");
  EXPECT_TRUE(read->extra.contains("models"));
}

TEST(Manifest, RepresentativeShapesAreTheOneDeclaredFillIn) {
  record::CampaignSpec spec = make_spec(), filled = spec;
  filled.representative_labels = {kShapes[0]};
  EXPECT_EQ(spec_digest(spec), spec_digest(filled));
  filled.protocol.min_effect = 0.001;
  EXPECT_NE(spec_digest(spec), spec_digest(filled));
  EXPECT_EQ(differing_keys(spec, filled), "protocol");
}

TEST(Manifest, ErrorsNameTheKey) {
  const std::string good = render_manifest(make_spec());
  const struct {
    const char *from, *to, *names;
  } rows[] = {{"target_op: gemm", "target_op:", "target_op"},
              {"max_iterations: 20", "max_iterations: many", "max_iterations"},
              {"performance_target: ~", "performance_target: fast", "performance target"},
              {"git_commit: true", "git_commit: perhaps", "git_commit"},
              {"target_op: gemm", "target_op: [", "manifest.yaml"},
              {"m=64 n=64 k=64", "m64", "target_shapes"}};
  for (const auto& row : rows) {
    std::string text = good;
    const std::size_t at = text.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.from << " in\n" << text;
    text.replace(at, std::string(row.from).size(), row.to);
    const Result<record::CampaignSpec> read = parse_manifest(text);
    ASSERT_FALSE(read) << row.to;
    EXPECT_NE(read.error().message.find(row.names), std::string::npos) << read.error().message;
  }
}

TEST(Manifest, ImpossibleSpecsAreRefused) {
  const auto refused = [](auto change) {
    record::CampaignSpec spec = make_spec();
    change(spec);
    return !validate_spec(spec);
  };
  EXPECT_FALSE(refused([](record::CampaignSpec&) {}));
  EXPECT_TRUE(refused([](record::CampaignSpec& s) { s.max_iterations = 0; }));
  EXPECT_TRUE(refused([](record::CampaignSpec& s) { s.max_iterations = 120; }));
  EXPECT_TRUE(refused([](record::CampaignSpec& s) { s.target_cases.push_back(s.target_cases[0]); }));
  EXPECT_TRUE(refused([](record::CampaignSpec& s) { s.target_cases.clear(); }));
  EXPECT_TRUE(refused([](record::CampaignSpec& s) { s.protocol.max_sessions = 5; }));
  EXPECT_TRUE(refused([](record::CampaignSpec& s) { s.wall_budget = -1; }));
}

TEST(Manifest, NamesACampaignByWhatItIsAbout) {
  record::CampaignSpec spec = make_spec();
  spec.gpu = "Xeon(R) 8592+/x";
  EXPECT_EQ(default_campaign_id(spec, "20261121"), "gemm_cpu_xeon-r--8592--x_20261121");
}

TEST(ProposalRules, LetAGoodProposalThrough) {
  EXPECT_EQ(refuse(make_proposal({make_candidate(150)}), fresh_state()), "");
  EXPECT_EQ(refuse(nothing_left(), fresh_state()), "");
}

TEST(ProposalRules, RefuseWhatCannotBeARound) {
  const auto refusal = [](auto change) {
    record::Proposal proposal = make_proposal({make_candidate(150)});
    change(proposal);
    return refuse(proposal, fresh_state());
  };
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates.clear(); }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.hypothesis.title.clear(); }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.hypothesis.bottleneck = "luck"; }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.hypothesis.category = "magic"; }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.hypothesis.expected_gain = std::nan(""); }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.hypothesis.expected_gain = 0; }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates[0].op = "conv"; }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates[0].backend = "cuda"; }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates[0].sources.clear(); }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates.push_back(p.candidates[0]); }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates[0] = make_candidate(100); }), "");
  EXPECT_NE(refusal([](record::Proposal& p) { p.candidates.push_back(make_candidate(160, "other source")); }), "");
}

TEST(ProposalRules, RefuseForbiddenBucketsWithTheReason) {
  for (const char* bucket : {"W2", "W3"}) {
    record::Proposal proposal = make_proposal({make_candidate(150)});
    proposal.hypothesis.bucket = bucket;
    EXPECT_NE(refuse(proposal, fresh_state()).find("transfer: "), std::string::npos);
  }
}

TEST(ProposalRules, RefusePathsThatLeaveTheWorktree) {
  for (const char* path : {"../kernel.cpp", "/etc/passwd", ".git/config", "a/../../b", "", "candidate.json", "a b.cpp",
                           "dir/.gitattributes", "./x.cpp"}) {
    record::Proposal proposal = make_proposal({make_candidate(150)});
    proposal.candidates[0].sources[0].path = path;
    EXPECT_NE(refuse(proposal, fresh_state()), "") << path;
  }
  EXPECT_TRUE(is_safe_path("kernels/gemm_v2.cpp"));
}

TEST(ProposalRules, SourcesThatTheRecordCannotHoldAreRefused) {
  EXPECT_NE(refuse(make_proposal({make_candidate(150, "int k; // caf\xe9\n")}), fresh_state()).find("not UTF-8"),
            std::string::npos);
  World world(one_per_round({}));
  const auto created = create_campaign(world.path(), make_spec(), make_candidate(100, "// \xff\n"), world.clock);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().message.find("not UTF-8"), std::string::npos);
}

TEST(Texts, BarsNewlinesAndStrangeBytesStayInTheirCell) {
  record::Proposal proposal = make_proposal({make_candidate(90)}, "a|b");
  proposal.hypothesis.title = "swap | and || \xc3\xa9";
  proposal.hypothesis.reasoning = "first | line\nsecond\r\n| third | \xff";
  World world(one_per_round({proposal}));
  ASSERT_TRUE(world.run());
  ASSERT_EQ(world.state().rounds.size(), 1u);
  const std::string trend = *read_file(world.path() / "logs/performance_trend.md");
  std::istringstream lines(trend);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 11) << line;
  EXPECT_EQ(std::count(trend.begin(), trend.end(), '\n'), 4);
  const std::string ineffective = *read_file(world.path() / "verified_ineffective.jsonl");
  EXPECT_EQ(record::parse_record<record::Ineffective>(ineffective)->direction, proposal.hypothesis.title);
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
  EXPECT_TRUE(replay_campaign(world.path())->ok());
}

TEST(ProposalRules, RefuseWhatWasMeasuredBeforeButNotWhatTheHarnessLost) {
  int asked = 0;
  World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
    ++asked;
    if (request.round == 2) return make_proposal({make_candidate(90)});
    if (request.round == 3 && request.last_error.empty()) return make_proposal({make_candidate(90)});
    return nothing_left();
  });
  ASSERT_TRUE(world.run());
  ASSERT_EQ(world.state().rounds.size(), 1u);
  EXPECT_NE(world.proposer.requests.back().last_error.find("round 2 measured this very candidate"), std::string::npos);
}

TEST(SessionSize, FitsItsShareAndNeverVanishes) {
  const record::Protocol protocol;
  const SessionSize quick = fit_sessions(0.001, 60, 4, 8, protocol);
  EXPECT_EQ(quick.sessions, 8);
  EXPECT_EQ(quick.launches, 3);
  EXPECT_EQ(quick.quads, 8);
  const SessionSize slow = fit_sessions(2.0, 60, 4, 8, protocol);
  EXPECT_EQ(slow.sessions, 4);
  EXPECT_EQ(slow.quads, 1);
  EXPECT_EQ(slow.launches, 1);
  const SessionSize middle = fit_sessions(0.1, 30, 4, 8, protocol);
  EXPECT_LE(middle.seconds, 30);
  EXPECT_EQ(middle.sessions, 8);
}

// The figures of a campaign on an H200: three shapes of 0.4 ms together, sessions of 0.69 s.
TEST(SessionSize, IsPlannedWithTheCostsThatTheBaselineShowed) {
  record::Baseline baseline;
  baseline.evaluation.roofline.resize(1);
  baseline.evaluation.roofline[0].latency = 0.4e-3;
  baseline.evaluation.seconds = {{"build", 0.7}, {"check", 3.2}, {"measure", 0.6}};
  const SessionCost look = cost_of_look(baseline.evaluation);
  EXPECT_NEAR(look.fixed, 4.4, 1e-9);
  EXPECT_NEAR(look.overhead + look.launch_factor * 0.4e-3 * 6, 0.6, 1e-9);
  for (int i = 0; i < 12; ++i) {
    record::Session session;
    session.role = "calibrate";
    session.guards["wall"] = 0.69;
    baseline.evaluation.seconds["measure"] += 0.69;
    baseline.evaluation.sessions.push_back(session);
  }
  baseline.calibration.quads = 8;
  baseline.calibration.launches = 3;
  const SessionCost cost = measured_cost(baseline);
  EXPECT_NEAR(cost.overhead + cost.launch_factor * 0.4e-3 * 98, 0.69, 1e-9);
  EXPECT_NEAR(cost.overhead + cost.launch_factor * 0.4e-3 * 6, 0.60, 1e-9);
  const record::Protocol protocol;
  const SessionSize planned = fit_sessions(0.4e-3, 16.5, 3, 8, protocol, cost);
  EXPECT_NEAR(planned.seconds, 4.4 + 8 * 0.69, 0.1);
  EXPECT_LT(fit_sessions(0.4e-3, 16.5, 3, 8, protocol).seconds, 0.6 * planned.seconds) << "a processor's costs";
  // A record without these figures keeps the defaults.
  EXPECT_EQ(measured_cost({}).overhead, SessionCost().overhead);
  EXPECT_EQ(measured_cost({}).fixed, 0);
}

TEST(Lineage, SnapshotsAreVerifiedOnTheWayBack) {
  const TempDir directory = TempDir::create("ridge-objects").value();
  const SnapshotStore store(directory.path());
  const Tree tree = {{"a.cpp", "one"}, {"sub/b.h", "two"}, {"empty", ""}};
  const std::string digest = *store.put(tree);
  EXPECT_EQ(digest, tree_digest(tree));
  EXPECT_EQ(*store.put(tree), digest);
  EXPECT_EQ(*store.get(digest), tree);
  ASSERT_TRUE(write_file_durably(directory.path() / tree_digest({}), "x"));
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (*read_file(entry.path()) != "two") continue;
    ASSERT_TRUE(write_file_durably(entry.path(), "tWo"));
  }
  EXPECT_EQ(store.get(digest).error().code, ErrorCode::kCorrupt);
}

TEST(Lineage, RestoringTouchesInScopePathsOnly) {
  const TempDir directory = TempDir::create("ridge-tree").value();
  ASSERT_TRUE(write_file_durably(directory.path() / "notes.txt", "mine"));
  ASSERT_TRUE(write_tree(directory.path(), {{"a", "1"}, {"b", "2"}}, {}));
  ASSERT_TRUE(write_tree(directory.path(), {{"a", "3"}}, {{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(*read_file(directory.path() / "a"), "3");
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "b"));
  EXPECT_EQ(*read_file(directory.path() / "notes.txt"), "mine");
}

TEST(Lineage, CommitMessagesHaveTheFixedForm) {
  CommitText text;
  text.op = "gemm";
  text.backend = "cpu";
  text.round = 7;
  text.summary = "pack B\ninto panels";
  text.hypothesis = "h";
  text.result = "1.5x";
  text.details = "logs/optimize.md";
  EXPECT_EQ(
      commit_message(text),
      "[optimize] gemm cpu round-7: pack B into panels\n\nHypothesis: h\nResult: 1.5x\nDetails: logs/optimize.md\n");
}

}  // namespace
}  // namespace ridge::campaign::test
