// Every written rule holds in an honest campaign, and breaks when what it is about is broken.
#include "campaign/rules/rule.h"

#include "campaign/lineage.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/render.h"
#include "campaign/upstream.h"
#include "campaign/verify.h"
#include "places.h"
#include "report/report.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::RuleVerdict;

std::vector<record::Proposal> story() {
  return {make_proposal({make_candidate(150)}),                                            // round 2: accepted
          make_proposal({make_candidate(120)}, "SLOWER"),                                  // round 3: slower
          make_proposal({make_candidate(160), make_candidate(300), make_candidate(200)}),  // round 4: sweep, accepted
          make_proposal({make_candidate(kIsWrong)}, "WRONG"),                              // round 5: wrong
          make_proposal({make_candidate(210)}, "SLOWER AGAIN"),                            // round 6: slower
          make_proposal({make_candidate(400)}, "FASTER")};                                 // round 7: accepted
}

struct Finished {
  World world{one_per_round(story())};
  State state;
  std::filesystem::path directory;
  Finished() {
    const Result<RunResult> done = world.run();
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
    state = world.state();
    directory = world.path();
  }
};
// Read-only; every test changes a copy.
const Finished& finished() {
  static const Finished one;
  return one;
}

Round& round_of(State& state, std::int64_t number) { return state.rounds.at(static_cast<std::size_t>(number - 2)); }
record::Hypothesis& hypothesis(State& s, std::int64_t n) { return round_of(s, n).attempts.back().proposal.hypothesis; }
record::Candidate& proposed(State& s, std::int64_t n) {
  return round_of(s, n).attempts.back().proposal.candidates.front();
}
record::Evaluation& evaluation(State& s, std::int64_t n) {
  return round_of(s, n).attempts.back().evaluated->evaluation;
}
record::CampaignSpec& spec(State& s) { return s.created->spec; }

void add_line(record::Candidate& candidate, const std::string& line) { candidate.sources[0].text += line + "\n"; }
void claim_cache(State& s, std::int64_t n, std::vector<std::string> key, std::vector<std::string> tests = {"mutates"}) {
  hypothesis(s, n).bucket = "W1";
  hypothesis(s, n).cache = record::CacheClaim{"something", std::move(key), std::move(tests)};
}

struct Offence {
  int rule;
  std::int64_t round;  // looked at
  const char* what;
  void (*commit)(State& state);
};
constexpr Offence kOffences[] = {
    {1, 2, "a negative budget", [](State& s) { spec(s).wall_budget = -1; }},
    {2, 2, "no kernel", [](State& s) { s.created->baseline.sources.clear(); }},
    {3, 2, "another machine",
     [](State& s) {
       s.prepared->environment.facts = {{"cpu.model", "Other"}};
     }},
    {4, 2, "too many rounds", [](State& s) { s.max_iterations = 120; }},
    {5, 2, "a target in prose",
     [](State& s) { spec(s).performance_target = record::Target{.metric = "faster", .unit = ""}; }},
    {6, 2, "a metric that no column gives", [](State& s) { spec(s).primary_metric = "vibes"; }},
    {7, 2, "another manifest", [](State& s) { s.confirmed->spec_digest = "0"; }},
    {8, 2, "the user's branch", [](State& s) { s.prepared->branch = "main"; }},
    {9, 2, "a time from elsewhere", [](State& s) { spec(s).created = "yesterday"; }},
    {10, 2, "a name that climbs", [](State& s) { spec(s).id = "../gemm_cpu_x_20260101"; }},
    {11, 2, "tips unread", [](State& s) { s.tips.reset(); }},
    {12, 2, "other shapes than frozen", [](State& s) { s.prepared->frozen["target_shapes"] = "x"; }},
    {13, 2, "a baseline that is wrong",
     [](State& s) { s.baseline->evaluation.checks[0].outcome = record::Outcome::kWrong; }},
    {14, 2, "a shape not measured", [](State& s) { s.baseline->evaluation.sessions[0].shapes.pop_back(); }},
    {15, 2, "one representative", [](State& s) { s.baseline->representative_labels.resize(1); }},
    {16, 2, "groups without loads", [](State& s) { spec(s).op = "grouped_gemm"; }},
    {17, 2, "a representative not timed",
     [](State& s) { s.baseline->representative_labels.emplace_back("m=1 n=1 k=1"); }},
    {18, 2, "another rollback root", [](State& s) { s.baseline_committed->snapshot = "x"; }},
    {19, 2, "no environment", [](State& s) { s.prepared->environment.facts.clear(); }},
    {20, 2, "a changed baseline", [](State& s) { s.baseline->candidate = make_candidate(101); }},
    {21, 2, "evidence that does not exist", [](State& s) { hypothesis(s, 2).evidence = {"the moon"}; }},
    {22, 2, "no risks", [](State& s) { hypothesis(s, 2).risks.clear(); }},
    {23, 2, "an activation cache", [](State& s) { hypothesis(s, 2).bucket = "W2"; }},
    {24, 2, "an unstable key",
     [](State& s) {
       claim_cache(s, 2, {"id(activation)", "shape"});
     }},
    {25, 3, "round 2 again", [](State& s) { proposed(s, 3) = make_candidate(150); }},
    {26, 2, "a class that counters deny",
     [](State& s) {
       s.baseline->evaluation.build.counts["dram_fraction"] = 0.1;
       hypothesis(s, 2).bottleneck = "memory";
     }},
    {27, 2, "no hypothesis", [](State& s) { round_of(s, 2).attempts.clear(); }},
    {28, 2, "two changes", [](State& s) { proposed(s, 2).defines["OTHER"] = 1; }},
    {29, 2, "another tree on disk",
     [](State& s) { round_of(s, 2).attempts.back().evaluated->tree = std::string(64, 'x'); }},
    {30, 2, "comments only",
     [](State& s) {
       proposed(s, 2) = make_candidate(100);
       add_line(proposed(s, 2), "// faster");
     }},
    {31, 3, "another object from the same sources",
     [](State& s) { evaluation(s, 3).candidate = evaluation(s, 2).candidate; }},
    {32, 2, "a table of pointers",
     [](State& s) { add_line(proposed(s, 2), "static std::unordered_map<const void*, float*> seen;"); }},
    {33, 2, "a divisible group",
     [](State& s) { add_line(proposed(s, 2), "static_assert(M_per_group % BLOCK_M == 0);"); }},
    {34, 2, "timed unchecked", [](State& s) { evaluation(s, 2).checks.clear(); }},
    {35, 2, "a fifth attempt", [](State& s) { round_of(s, 2).attempts.resize(5, round_of(s, 2).attempts[0]); }},
    {36, 2, "a shape missing from a session", [](State& s) { evaluation(s, 2).sessions[1].shapes.pop_back(); }},
    {37, 2, "a level of its own", [](State& s) { round_of(s, 2).attempts.back().evaluated->level = "best of"; }},
    {38, 2, "accepted on a quick look", [](State& s) { round_of(s, 2).attempts.back().evaluated->level = "quick"; }},
    {39, 2, "another header", [](State& s) { s.prepared->frozen["benchmark_header"] = "x"; }},
    {40, 2, "another clock", [](State& s) { evaluation(s, 2).timing = "stopwatch"; }},
    {41, 2, "an answer without an object", [](State& s) { evaluation(s, 2).build.artifact.clear(); }},
    {42, 2, "an endless wait", [](State& s) { spec(s).protocol.call_timeout = 1000; }},
    {43, 2, "a filtered log", [](State& s) { evaluation(s, 2).build.command = "make | tail -1"; }},
    {44, 2, "accepted with a failed row",
     [](State& s) { evaluation(s, 2).checks[0].outcome = record::Outcome::kWrong; }},
    {45, 2, "accepted beyond the error model", [](State& s) { evaluation(s, 2).checks[0].max_error_ratio = 2; }},
    {46, 2, "a shape left out of the score", [](State& s) { round_of(s, 2).decision->effects.pop_back(); }},
    {47, 2, "a backward pass that was not timed", [](State& s) { spec(s).primary_metric = "combined_step_tflops"; }},
    {49, 2, "accepted against a gate",
     [](State& s) { round_of(s, 2).decision->gates[3].outcome = record::GateOutcome::kFail; }},
    {51, 2, "accepted unclear",
     [](State& s) { round_of(s, 2).decision->gates[3].outcome = record::GateOutcome::kInconclusive; }},
    {52, 2, "K1 with an identity cache",
     [](State& s) {
       add_line(round_of(s, 2).attempts.back().evaluated->candidate, "static const float* last_input;");
     }},
    {53, 2, "a key without a version",
     [](State& s) {
       claim_cache(s, 2, {"id(weight)", "shape"});
     }},
    {54, 2, "a key that never hits",
     [](State& s) {
       claim_cache(s, 2, {"id(grad_out)", "shape"});
     }},
    {55, 2, "launches on used inputs", [](State& s) { evaluation(s, 2).checks[1].verified_calls = 1; }},
    {56, 2, "no test of the version",
     [](State& s) {
       claim_cache(s, 2, {"id(weight)", "weight._version", "shape"}, {});
     }},
    {57, 2, "more than the roofline leaves", [](State& s) { round_of(s, 2).decision->effects[0].low = 50; }},
    {58, 2, "no skewed gain", [](State& s) { spec(s).op = "moe_gemm"; }},
    {59, 2, "a weight cache without its bound",
     [](State& s) {
       claim_cache(s, 2, {"id(weight)", "weight._version", "shape"});
     }},
    {60, 2, "a residual", [](State& s) { hypothesis(s, 2).bucket = "W1"; }},
    {61, 2, "a tip that praises a cache",
     [](State& s) { s.tips->tips = {"## Win\nKeep a weakref to the activation.\n"}; }},
    {62, 2, "another snapshot", [](State& s) { round_of(s, 2).committed->snapshot = "x"; }},
    {64, 2, "an accepted loss", [](State& s) { round_of(s, 2).decision->effects[0].ratio = 0.5; }},
    {66, 2, "a round against an old best", [](State& s) { round_of(s, 4).incumbent_round = 1; }},
    {67, 4, "nothing learned", [](State& s) { hypothesis(s, 4).informed_by.reset(); }},
    {68, 4, "no evidence after a rollback", [](State& s) { s.escalations.clear(); }},
    {69, 7, "no review", [](State& s) { s.escalations.back().directions.clear(); }},
    {71, 2, "no commit", [](State& s) { round_of(s, 2).committed->commit.clear(); }},
    {72, 2, "no integration gate", [](State& s) { spec(s).execution_mode = "repo"; }},
    {72, 2, "never tested in the whole project",
     [](State& s) {
       describe_upstream(spec(s), {"/up", "", std::string(40, 'c'), std::string(64, 'd'), {"src"}});
     }},
    {74, 2, "no final measurement", [](State& s) { s.final_measurement->effects.clear(); }},
    {75, 2, "an acceptance that was never run", [](State& s) { spec(s).extra["acceptance_command"] = "make check"; }},
};

RuleFinding ask(int rule, const State& state, std::int64_t round, const std::filesystem::path* directory = nullptr) {
  const Rule* found = find_rule(std::to_string(rule));
  EXPECT_NE(found, nullptr);
  return found->check({state, &state.rounds.at(static_cast<std::size_t>(round - 2)), directory});
}

TEST(Registry, HoldsSeventyFiveRulesInOrderOfWhichFiveAreTrueByConstruction) {
  std::vector<int> numbers;
  for (const Rule& rule : rules()) {
    numbers.push_back(rule.number);
    EXPECT_EQ(find_rule(fmt::format("R{}", rule.number)), &rule);
    EXPECT_EQ(find_rule(rule.name), &rule);
  }
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_EQ(rules().size(), 70u);
  for (const ConstructedRule& rule : rules_by_construction()) {
    numbers.push_back(rule.number);
    EXPECT_EQ(find_rule(std::to_string(rule.number)), nullptr) << "rule " << rule.number << " is checked after all";
  }
  std::sort(numbers.begin(), numbers.end());
  ASSERT_EQ(numbers.size(), 75u);
  for (int i = 0; i < 75; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i + 1);
  EXPECT_EQ(find_rule("76"), nullptr);
}

// What the five say, on the record of a whole campaign: if the engine ever came to break one, it would need its check
// again.
TEST(Registry, WhatIsTrueByConstructionHolds) {
  const State& state = finished().state;
  for (const Round& round : state.rounds) {
    ASSERT_TRUE(round.decision && round.closed());
    EXPECT_FALSE(round.decision->plain_rule.empty()) << round.number;
    EXPECT_FALSE(round.decision->reason.empty()) << round.number;
    const std::string summary = render_round_summary(state, round);
    for (const char* section :
         {"## Hypothesis", "## Single change", "## Results", "### Validation", "### Aggregate", "## Decision",
          "## Attribution", "## Next direction", "## Real-training transfer check"})
      EXPECT_NE(summary.find(section), std::string::npos) << round.number << " " << section;
    EXPECT_EQ(summary.find("## Rollback Analysis") == std::string::npos, round.committed.has_value()) << round.number;
  }
  EXPECT_GE(state.termination->conditions.size(), 5u);
  EXPECT_EQ(state.termination->condition, "exhausted");
}

// Campaigns under way keep the digest under which they were confirmed.
TEST(Registry, TheDigestOfTheRulesIsOverAllSeventyFive) {
  EXPECT_EQ(frozen_digests(finished().state).at("rules"),
            "8a65dc8b17f31e79ce39df900dc34ec7122e121f7565ed0b7b70ab60b00b5893");
}

TEST(Registry, AnHonestCampaignBreaksNoRuleInAnyRound) {
  const State& state = finished().state;
  ASSERT_EQ(state.rounds.size(), 6u);
  for (const Round& round : state.rounds) {
    for (const record::RuleRow& row : judge_all({state, &round, &finished().directory})) {
      const bool holds = row.verdict == RuleVerdict::kPass || row.verdict == RuleVerdict::kNotApplicable;
      EXPECT_TRUE(holds) << "round " << round.number << " rule " << row.rule << " " << row.name << ": " << row.evidence;
      EXPECT_FALSE(row.evidence.empty()) << row.rule;
    }
  }
}

TEST(Registry, EveryRuleBreaksWhenWhatItIsAboutIsBroken) {
  std::set<int> broken = {65};  // about files: its own test below
  for (const Offence& offence : kOffences) {
    State state = finished().state;
    const RuleFinding before = ask(offence.rule, state, offence.round);
    EXPECT_TRUE(before.verdict == RuleVerdict::kPass || before.verdict == RuleVerdict::kNotApplicable) << offence.rule;
    offence.commit(state);
    const RuleFinding after = ask(offence.rule, state, offence.round);
    EXPECT_TRUE(after.verdict == RuleVerdict::kFail || after.verdict == RuleVerdict::kUnknown)
        << "rule " << offence.rule << " does not mind " << offence.what << ": " << after.evidence;
    EXPECT_FALSE(after.evidence.empty());
    broken.insert(offence.rule);
  }
  EXPECT_EQ(broken.size(), rules().size());
}

TEST(Registry, AnEditedLogIsFound) {
  World world(one_per_round(story()));
  ASSERT_TRUE(world.run());
  const State state = world.state();
  const std::filesystem::path directory = world.path();
  EXPECT_EQ(ask(65, state, 2, &directory).verdict, RuleVerdict::kPass);
  ASSERT_TRUE(write_file_durably(directory / "logs/optimize.md", "# my own log\n"));
  EXPECT_EQ(ask(65, state, 2, &directory).verdict, RuleVerdict::kFail);
  ASSERT_TRUE(write_file_durably(directory / "src/kernel.cpp", "int other;\n"));
  EXPECT_EQ(ask(66, state, 2, &directory).verdict, RuleVerdict::kFail);
}

TEST(Registry, TheDocumentationIsTheRegistry) {
  EXPECT_EQ(*read_file(source_dir() / "docs/rules.md"), rules_markdown())
      << "run: ridge campaign rules --markdown > docs/rules.md";
}

TEST(Transitions, TheTableInTheArchitectureIsTheOneThatRuns) {
  EXPECT_NE(read_file(source_dir() / "ARCHITECTURE.md")->find(transitions_markdown()), std::string::npos)
      << transitions_markdown();
}

TEST(Enforcement, ABrokenRulePausesBeforeTheFirstHypothesisAndAWaiverLetsItGoOn) {
  World world(one_per_round(story()));
  record::WorkerResponse described;
  described.environment = record::Environment{{{"cpu.model", "something else"}}};
  world.executor.on(record::WorkerTask::kDescribe, described);
  const Result<RunResult> paused = world.run();
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_NE(paused->reason.find("rule 3 (language and device) fails"), std::string::npos) << paused->reason;
  EXPECT_NE(paused->reason.find("ridge campaign waive"), std::string::npos);
  EXPECT_TRUE(world.state().rounds.empty());
  EXPECT_FALSE(waive_rule(world.path(), "3", " ", "test", world.clock));
  EXPECT_FALSE(waive_rule(world.path(), "44", "I am sure", "test", world.clock));  // makes a result true
  EXPECT_FALSE(waive_rule(world.path(), "nonsense", "I am sure", "test", world.clock));
  ASSERT_TRUE(waive_rule(world.path(), "3", "the same chip under another name", "test", world.clock));
  const Result<RunResult> done = world.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  const State state = world.state();
  const auto row = std::find_if(state.reported->rules.begin(), state.reported->rules.end(),
                                [](const record::RuleRow& one) { return one.rule == 3; });
  EXPECT_EQ(row->verdict, RuleVerdict::kFail);
  EXPECT_EQ(row->waived, "the same chip under another name");
  EXPECT_TRUE(verify_campaign(world.path())->ok());
  EXPECT_TRUE(replay_campaign(world.path())->ok());
}

TEST(Enforcement, AForgedTreeIsRefusedInTheDecision) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  world.executor.on(record::WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response = evaluate(request);
    if (!request.quick_look) response.evaluation->timing = "stopwatch";
    return response;
  });
  const Result<RunResult> done = world.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;  // the round is lost, not the campaign
  const State state = world.state();
  const Round& round = state.rounds[0];
  EXPECT_TRUE(round.rolled_back);
  EXPECT_NE(round.decision->reason.find("rule 40 (one timing engine)"), std::string::npos) << round.decision->reason;
}

TEST(Enforcement, AHypothesisAfterARollbackMustSayWhatItLearned) {
  World world([](const record::ProposalRequest& request) -> Result<record::Proposal> {
    if (request.round == 2) return make_proposal({make_candidate(90)}, "SLOWER");
    if (request.round > 3) return nothing_left();
    record::Proposal proposal = make_proposal({make_candidate(150)});
    if (!request.last_error.empty()) proposal.hypothesis.informed_by = 2;
    return proposal;
  });
  world.proposer.attentive = false;
  ASSERT_TRUE(world.run());
  EXPECT_NE(world.proposer.requests[2].last_error.find("informed_by must name"), std::string::npos);
  EXPECT_TRUE(world.state().rounds.at(1).committed);
}

TEST(Escalation, EvidenceGrowsWithRollbacksInARowAndIsAboutTheCurrentBuild) {
  std::vector<record::Proposal> proposals;
  for (const std::int64_t speed : {90, 91, 92, 93, 94}) {
    proposals.push_back(make_proposal({make_candidate(speed)}, "SLOWER " + std::to_string(speed)));
  }
  proposals.push_back(make_proposal({make_candidate(150)}));
  World world(one_per_round(proposals));
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_EQ(state.escalations.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(state.escalations[i].level, std::min<std::int64_t>(static_cast<std::int64_t>(i) + 1, 4));
    EXPECT_EQ(state.escalations[i].artifact, make_build(make_candidate(100)).artifact);
    EXPECT_EQ(state.escalations[i].directions.size() >= 3, i >= 1) << i;
  }
  EXPECT_TRUE(state.escalations[1].figures.contains("worst_fraction"));
  EXPECT_TRUE(state.escalations[2].figures.contains("fma_vector"));
  EXPECT_NEAR(state.escalations[3].figures.at("best_known " + kShapes[0]), 8, 0.1);
  // Measured once per build, passed on afterwards.
  EXPECT_EQ(state.escalations[4].figures, state.escalations[3].figures);
  const auto count = [&](record::WorkerTask task) {
    return std::count_if(world.executor.requests().begin(), world.executor.requests().end(),
                         [&](const record::WorkerRequest& request) { return request.task == task; });
  };
  EXPECT_EQ(count(record::WorkerTask::kBuild), 2);                // one of the evidence, one before the accept
  EXPECT_EQ(count(record::WorkerTask::kBench), 2);                // one of the evidence, one of the final measurement
  EXPECT_EQ(world.proposer.requests.back().findings.size(), 0u);  // the last round was accepted
  EXPECT_GE(world.proposer.requests[4].directions.size(), 3u);
  EXPECT_TRUE(state.rounds.back().committed);  // stagnation ends nothing
}

record::CampaignSpec eight_shapes() {
  record::CampaignSpec spec = make_spec();
  spec.target_cases.clear();
  for (const int m : {64, 128, 256, 512, 768, 1024, 1536, 2048}) {
    spec.target_cases.push_back(*record::parse_case(fmt::format("gemm m={0} n={0} k={0}", m)));
  }
  return spec;
}

TEST(Levels, AQuickLookRejectsAndOnlyAFullEvaluationAccepts) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")}),
              eight_shapes());
  const Result<RunResult> done = world.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  const State state = world.state();
  ASSERT_EQ(state.rounds.size(), 2u);
  ASSERT_TRUE(state.rounds[0].last().quick);
  EXPECT_EQ(state.rounds[0].last().quick->evaluation.checks.size(), 5u);
  EXPECT_EQ(state.rounds[0].last().evaluated->level, "full");
  EXPECT_EQ(state.rounds[0].last().evaluated->evaluation.checks.size(), 8u);
  EXPECT_TRUE(state.rounds[0].committed);
  EXPECT_EQ(state.rounds[1].last().evaluated->level, "quick");
  EXPECT_FALSE(state.rounds[1].last().quick);
  EXPECT_TRUE(state.rounds[1].rolled_back);
  EXPECT_EQ(state.decisions_used, 1);  // a look that can only reject takes no share of alpha
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
  EXPECT_TRUE(replay_campaign(world.path())->ok());
}

TEST(Levels, ALossOnAShapeThatTheQuickLookDoesNotSeeIsFoundInFull) {
  World world(one_per_round({make_proposal({make_candidate(150)})}), eight_shapes());
  std::string unseen;
  world.executor.on(record::WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
    record::WorkerResponse response = evaluate(request);
    if (request.quick_look || request.cases.size() < 8) return response;
    const std::vector<std::string> chosen = world.state().baseline->representative_labels;
    for (const std::string& label : labels_of(request.cases)) {
      if (std::count(chosen.begin(), chosen.end(), label) == 0) unseen = label;
    }
    for (record::Session& session : response.evaluation->sessions) {
      for (record::ShapeSamples& shape : session.shapes) {
        if (shape.label != unseen) continue;
        for (record::Quad& quad : shape.quads) {
          for (std::size_t i = 0; i < 4; ++i) {
            if (quad.order[i] == 'B')
              for (double& t : quad.blocks[i]) t *= 1.8;
          }
        }
      }
    }
    return response;
  });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_FALSE(unseen.empty());
  EXPECT_TRUE(state.rounds[0].rolled_back);
  EXPECT_NE(state.rounds[0].decision->reason.find(unseen), std::string::npos) << state.rounds[0].decision->reason;
}

}  // namespace
}  // namespace ridge::campaign::test
