// What was not measured is not knowledge: a round without a counted session has a state of its own in everything that
// is made of the journal, and teaches the next hypothesis nothing.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/hash.h"
#include "campaign/export.h"
#include "campaign/foreign.h"
#include "campaign/iterations.h"
#include "campaign/tips.h"
#include "campaign/verify.h"
#include "record/foreign.h"
#include "report/report.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::RoundState;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Round 2 is accepted, round 3 is not measured in the way that the parameter names, round 4 is slower.
struct Way {
  const char* name;
  std::function<Result<record::WorkerResponse>(const record::WorkerRequest&)> evaluate;
};

Way void_sessions() {
  return {"void", [](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
            record::WorkerResponse response = evaluate(request);
            response.evaluation->outcome = record::Outcome::kAmbiguous;
            response.evaluation->detail = "too many void sessions";
            for (record::Session& session : response.evaluation->sessions) {
              session.voided = true;
              session.void_reason = "throttle = 1 is outside 0..0";
              session.guards["throttle"] = 1;
            }
            return response;
          }};
}
Way harness_fault_of_worker() {
  return {"fault", [](const record::WorkerRequest&) -> Result<record::WorkerResponse> {
            return make_error(ErrorCode::kToolFailed, "killed by signal 9");
          }};
}
Way time_limit() {
  return {"limit", [](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
            record::WorkerResponse response;
            record::Evaluation evaluation;
            evaluation.incumbent = request.incumbent->id();
            evaluation.candidate = request.candidates[0].id();
            evaluation.build = make_build(request.candidates[0]);
            evaluation.incumbent_artifact = make_build(*request.incumbent).artifact;
            evaluation.outcome = record::Outcome::kAmbiguous;
            evaluation.detail = "the time limit was reached";
            response.evaluation = evaluation;
            return response;
          }};
}

constexpr std::int64_t kUnmeasured = 170;
const char* const kIdea = "make it speed 170";

class NotMeasured : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    world_.executor.on(record::WorkerTask::kEvaluate,
                       [](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
                         if (request.candidates[0].defines.at("SPEED") != kUnmeasured) return evaluate(request);
                         return GetParam().evaluate(request);
                       });
    const Result<RunResult> ended = world_.run();
    ASSERT_TRUE(ended) << ended.error().text();
    ASSERT_EQ(ended->end, RunEnd::kDone) << ended->reason;
    state_ = world_.state();
    ASSERT_EQ(state_.rounds.size(), 3u);
  }
  std::string file(const std::string& path) { return *read_file(world_.path() / path); }

  World world_{
      one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(kUnmeasured)}, "LOST"),
                     make_proposal({make_candidate(50)}, "SLOW")})};
  State state_;
};

TEST_P(NotMeasured, IsAStateOfTheRound) {
  EXPECT_EQ(state_.rounds[0].state(), RoundState::kAccepted);
  EXPECT_EQ(state_.rounds[1].state(), RoundState::kNotMeasured);
  EXPECT_EQ(state_.rounds[2].state(), RoundState::kRolledBack);
  for (const record::GateResult& gate : state_.rounds[1].decision->gates) {
    if (gate.gate == "build" && GetParam().name == std::string("fault")) {
      EXPECT_EQ(gate.outcome, record::GateOutcome::kInconclusive);
    }
  }
}

TEST_P(NotMeasured, TheLogsCallItThatAndListItAsOpen) {
  const std::string log = file("logs/optimize.md");
  const std::string ineffective = log.substr(log.find("## Verified Ineffective"));
  EXPECT_THAT(ineffective.substr(0, ineffective.find("## Final Report")), Not(HasSubstr("round-3")));
  EXPECT_THAT(ineffective.substr(0, ineffective.find("## Final Report")), HasSubstr("round-4"));
  const std::size_t next = log.find("## Directions to Try");
  const std::string directions = log.substr(next, log.find("## Verified Ineffective") - next);
  EXPECT_THAT(directions, HasSubstr(kIdea));
  EXPECT_THAT(directions, HasSubstr("not measured in round 3"));
  EXPECT_THAT(directions, Not(HasSubstr(state_.termination->detail)));
  EXPECT_THAT(log, HasSubstr("Iterations: 3 (1 accepted, 1 rolled back, 1 not measured)"));
  EXPECT_THAT(log, HasSubstr("- Decision: not measured\n"));
  EXPECT_THAT(file("logs/performance_trend.md"), HasSubstr("| round-3 | NOT MEASURED |"));
  EXPECT_THAT(file("logs/performance_trend.md"), HasSubstr("| not measured |"));
  EXPECT_THAT(file("verified_ineffective.jsonl"), Not(HasSubstr(kIdea)));
  EXPECT_THAT(file("verified_ineffective.jsonl"), HasSubstr("make it speed 50"));
  const std::string summary = file("rounds/round-3/summary.md");
  EXPECT_THAT(summary, HasSubstr("## Decision\n\nNOT MEASURED: "));
  EXPECT_THAT(summary, Not(HasSubstr("ROLLED BACK")));
  EXPECT_THAT(summary, Not(HasSubstr("does not pay here")));
  EXPECT_THAT(summary, HasSubstr("Measure this again"));
  EXPECT_THAT(summary, ContainsRegex("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}[^:0-9]")) << "times to the minute";
  if (GetParam().name != std::string("void")) {
    EXPECT_THAT(file("rounds/round-3/artifacts/benchmark.csv"), Not(HasSubstr("FAIL")));
    EXPECT_THAT(file("rounds/round-3/artifacts/benchmark.csv"), Not(HasSubstr("PASS")));
  }
}

TEST_P(NotMeasured, TheMemoryHasItAsNeitherPassedNorFailed) {
  const record::Iteration it = *knowledge::Memory::open(world_.path())->read("v2");
  EXPECT_EQ(it.quality_gate.result, record::IterationStatus::kNotMeasured);
  const bool checked = GetParam().name == std::string("void");  // its outputs were, and were right
  EXPECT_EQ(it.correctness.status, checked ? record::IterationStatus::kPass : record::IterationStatus::kNotMeasured);
  EXPECT_FALSE(it.performance.latency_us);
  EXPECT_TRUE(it.pitfalls_and_fixes.empty());
  ASSERT_FALSE(it.open_directions.empty());
  EXPECT_EQ(it.open_directions[0].direction, kIdea);
  EXPECT_TRUE(knowledge::Memory::open(world_.path())->validate()->empty());
}

TEST_P(NotMeasured, TheNextHypothesisIsNotTaughtByIt) {
  const record::ProposalRequest& last = world_.proposer.requests.back();
  ASSERT_EQ(last.history.size(), 3u);
  EXPECT_EQ(last.history[1].state, RoundState::kNotMeasured);
  EXPECT_FALSE(last.history[1].accepted);
  for (const std::string& finding : last.findings) EXPECT_THAT(finding, Not(HasSubstr("LOST")));
  for (const knowledge::NewTip& tip : tips_of(state_)) EXPECT_NE(tip.round, 3);
  EXPECT_EQ(tips_of(state_).size(), 2u);
}

TEST_P(NotMeasured, ExportsAndTheReportSaySo) {
  // Other tools have no word for it: it is left out, and what follows keeps its number, or is the next version.
  const Export view = *render_export(state_, ExportFormat::kTurboView);
  const record::ForeignRun run = *record::parse_foreign_run(view.files.at("state/" + state_.spec().id + "/run.json"));
  ASSERT_EQ(run.history.size(), 3u);
  EXPECT_EQ(run.history[2].round, 4);
  EXPECT_EQ(parse_json(view.files.at("state/" + state_.spec().id + "/run.json"))->at("rollback_streak"), 1);
  EXPECT_THAT(view.files.at("logs/performance_trend.md"), Not(HasSubstr("| 3 |")));
  ASSERT_TRUE(write_export(world_.base() / "view", view));
  const record::ForeignCampaign back = *import_foreign(world_.base() / "view");
  ASSERT_EQ(back.rounds.size(), 3u);
  EXPECT_EQ(back.rounds[2].status, "ROLLBACK");
  for (const auto& one : back.findings) {
    EXPECT_NE(one.kind, "malformed") << one.path << ": " << one.what;
    EXPECT_THAT(one.what, Not(HasSubstr("the trend says")));
  }
  const Export memory = *render_export(state_, ExportFormat::kAtrex);
  EXPECT_FALSE(memory.files.contains("memory/v3.json"));
  EXPECT_THAT(memory.files.at("memory/v2.json"), HasSubstr("make it speed 50"));
  EXPECT_THAT(memory.files.at("README.md"), HasSubstr("round 3 was not measured"));

  const report::Model model = *report::load(world_.path());
  EXPECT_EQ(model.rounds[1].state, RoundState::kNotMeasured);
  EXPECT_EQ(model.rolled_back, 1);
  EXPECT_EQ(model.not_measured, 1);
  const std::string page = report::markdown(model);
  const std::string now =
      page.substr(page.find("## What now?"), page.find("## Where the kernel") - page.find("## What now?"));
  EXPECT_THAT(now, HasSubstr(kIdea));
  EXPECT_THAT(now, Not(HasSubstr("Finished because")));
  EXPECT_THAT(page.substr(0, page.find("## How fast?")), HasSubstr("Finished because"));
}

TEST_P(NotMeasured, TheRecordVerifiesAndReplays) {
  EXPECT_TRUE(verify_campaign(world_.path())->ok()) << verify_campaign(world_.path())->text();
  EXPECT_TRUE(replay_campaign(world_.path())->ok());
}

INSTANTIATE_TEST_SUITE_P(Ways, NotMeasured, testing::Values(void_sessions(), harness_fault_of_worker(), time_limit()),
                         [](const auto& way) { return way.param.name; });

TEST(Unmeasured, ThreeInARowPauseTheCampaign) {
  World world([](const record::ProposalRequest& request) -> Result<record::Proposal> {
    return make_proposal({make_candidate(100 + request.round)});
  });
  world.executor.on(record::WorkerTask::kEvaluate, time_limit().evaluate);
  world.executor.on(record::WorkerTask::kEvaluate,
                    [](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
                      if (request.quick_look || request.candidates[0].id() == request.incumbent->id())
                        return evaluate(request);
                      return time_limit().evaluate(request);
                    });
  const Result<RunResult> ended = world.run();
  ASSERT_TRUE(ended) << ended.error().text();
  EXPECT_EQ(ended->end, RunEnd::kPaused);
  EXPECT_THAT(ended->reason, HasSubstr("nothing could be measured in 3 rounds in a row"));
  EXPECT_EQ(world.state().rounds.size(), 3u);
}

// Sessions that an audit throws away measured nothing: the objects are not what the sources make, a time undercuts the
// bound, or the incumbent failed in a later session.
TEST(Unmeasured, AuditFaultsInARowPauseTheCampaignToo) {
  for (const std::string fault : {"rebuild", "physics", "incumbent"}) {
    World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
      return make_proposal({make_candidate((fault == "physics" ? 3000 : 150) + request.round)});
    });
    world.executor.on(record::WorkerTask::kBuild, [&](const record::WorkerRequest& request) {
      record::WorkerResponse response = build(request);
      if (request.fresh_build && fault == "rebuild") response.builds[0].artifact = "object-of-the-sources";
      return Result<record::WorkerResponse>(response);
    });
    world.executor.on(record::WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
      record::WorkerResponse response = evaluate(request);
      if (fault == "incumbent" && request.candidates[0].id() != request.incumbent->id())
        response.evaluation->outcome = record::Outcome::kHarnessFault;
      return Result<record::WorkerResponse>(response);
    });
    const Result<RunResult> ended = world.run();
    ASSERT_TRUE(ended) << fault << ": " << ended.error().text();
    EXPECT_EQ(ended->end, RunEnd::kPaused) << fault;
    EXPECT_THAT(ended->reason, HasSubstr("nothing could be measured in 3 rounds in a row")) << fault;
    const State state = world.state();
    ASSERT_EQ(state.rounds.size(), 3u) << fault;
    EXPECT_EQ(state.rounds[0].decision->outcome, record::Outcome::kHarnessFault) << fault;
    EXPECT_FALSE(state.rounds[0].decision->effects.empty()) << fault;
    EXPECT_EQ(state.rounds[0].state(), RoundState::kNotMeasured) << fault;
    EXPECT_EQ(summarise(state.rounds[0]).suite_ratio, 1) << fault;
    EXPECT_FALSE(knowledge::Memory::open(world.path())->read("v1")->performance.speedup_over_previous) << fault;
    EXPECT_TRUE(verify_campaign(world.path())->ok()) << fault;
    EXPECT_TRUE(replay_campaign(world.path())->ok()) << fault;
  }
}

// A sweep that ran out of time before it was looked at refuted nothing.
TEST(Unmeasured, ASweepThatWasNotLookedAtIsInconclusive) {
  World world(one_per_round({make_proposal({make_candidate(110), make_candidate(120)})}));
  world.executor.on(record::WorkerTask::kScreen, [](const record::WorkerRequest& request) {
    record::WorkerResponse response;
    for (const record::Candidate& candidate : request.candidates) {
      record::ScreenRow row;
      row.candidate = candidate.id();
      row.outcome = response.screen.empty() ? record::Outcome::kCompile : record::Outcome::kAmbiguous;
      row.detail = response.screen.empty() ? "error" : "not measured: the time limit was reached";
      response.screen.push_back(row);
    }
    return response;
  });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  EXPECT_EQ(state.rounds[0].state(), RoundState::kNotMeasured);
  EXPECT_EQ(state.rounds[0].decision->gates[0].outcome, record::GateOutcome::kInconclusive);
  EXPECT_TRUE(replay_campaign(world.path())->ok());
}

// A record that an earlier version wrote: its journal names no rendering, and its digests are of other files.
class EarlierRecord : public testing::Test {
 protected:
  static constexpr const char* kLog = "logs/optimize.md";
  void SetUp() override {
    world_.executor.on(record::WorkerTask::kEvaluate,
                       [](const record::WorkerRequest& request) -> Result<record::WorkerResponse> {
                         if (request.candidates[0].defines.at("SPEED") != kUnmeasured) return evaluate(request);
                         return harness_fault_of_worker().evaluate(request);
                       });
    ASSERT_TRUE(world_.run());
    ASSERT_TRUE(write_file_durably(world_.path() / kLog, old_log_));
    std::string text, previous(64, '0');
    std::vector<record::Event> events = record::read_journal(world_.path() / "journal.jsonl")->events;
    for (record::Event& event : events) {
      if (event.kind == record::EventKind::kPrepared) event.payload.erase("rendering");
      if (event.kind == record::EventKind::kReported) event.payload["files"][kLog] = sha256(old_log_);
      event.previous = previous;
      event.hash = record::event_hash(event);
      previous = event.hash;
      text += record::to_line(event) + "\n";
    }
    ASSERT_TRUE(write_file_durably(world_.path() / "journal.jsonl", text));
  }
  World world_{one_per_round({make_proposal({make_candidate(kUnmeasured)}, "LOST")})};
  std::string old_log_ = "the log as it was rendered then: make it speed 170 is ineffective\n";
};

TEST_F(EarlierRecord, VerifiesByTheDigestsInItsJournal) {
  const VerifyReport report = *verify_campaign(world_.path());
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(report.otherwise, 1);
  EXPECT_THAT(report.text(), HasSubstr("1 files were rendered otherwise by the earlier version"));
  EXPECT_TRUE(replay_campaign(world_.path())->ok());
}

TEST_F(EarlierRecord, VerifiesWithoutTheFile) {
  std::filesystem::remove(world_.path() / kLog);
  const VerifyReport report = *verify_campaign(world_.path());
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(report.otherwise, 1);
}

TEST_F(EarlierRecord, AnEditedFileIsStillFound) {
  ASSERT_TRUE(write_file_durably(world_.path() / kLog, old_log_ + "more\n"));
  const VerifyReport report = *verify_campaign(world_.path());
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.findings.size(), 1u) << report.text();
  EXPECT_EQ(report.findings[0].kind, FileFinding::Kind::kForged);
}

// The record of a round without a verdict as it was written then, and edited since.
TEST_F(EarlierRecord, TheMemoryIsWhatThatVersionWroteOrWasChangedByHand) {
  const State state = world_.state();
  const std::filesystem::path path = world_.path() / "memory/v1.json";
  record::Iteration then = *knowledge::Memory::open(world_.path())->read("v1");
  then.quality_gate.result = record::IterationStatus::kFail;
  then.correctness.status = record::IterationStatus::kFail;
  const record::Evaluation& fault = state.rounds[0].last().evaluated->evaluation;
  then.pitfalls_and_fixes = {{"runtime", fault.detail, "LOST", "rolled back", state.rounds[0].decision->reason}};
  then.open_directions = {};
  ASSERT_TRUE(write_file_durably(path, record::to_pretty(then)));
  EXPECT_TRUE(verify_campaign(world_.path())->findings.empty()) << verify_campaign(world_.path())->text();
  const std::function<void(record::Iteration&)> edits[] = {
      [](record::Iteration& it) { it.quality_gate.result = record::IterationStatus::kPass; },
      [](record::Iteration& it) { it.correctness.status = record::IterationStatus::kPass; },
      [](record::Iteration& it) { it.performance.speedup_over_previous = 3; },
      [](record::Iteration& it) { it.pitfalls_and_fixes[0].lesson = "never try this"; },
      [](record::Iteration& it) { it.references.back().path_or_url = "another candidate"; },
      [](record::Iteration& it) { it.optimization.action_description += "!"; }};
  for (const auto& edit : edits) {
    record::Iteration edited = then;
    edit(edited);
    ASSERT_TRUE(write_file_durably(path, record::to_pretty(edited)));
    const VerifyReport report = *verify_campaign(world_.path());
    EXPECT_FALSE(report.ok()) << record::to_line(edited);
    ASSERT_EQ(report.findings.size(), 1u) << report.text();
    EXPECT_EQ(report.findings[0].kind, FileFinding::Kind::kForged);
  }
}

TEST_F(EarlierRecord, GoingOnWithItWritesItsFilesAgainAndKeepsTheOldOnes) {
  ASSERT_TRUE(extend_budget(world_.path(), {.wall_budget = 0, .max_iterations = 30}, world_.clock));
  ASSERT_TRUE(world_.run());
  EXPECT_THAT(*read_file(world_.path() / kLog), HasSubstr("not measured in round 2"));
  EXPECT_EQ(*read_file(world_.path() / (std::string(kLog) + ".edited")), old_log_);
  EXPECT_TRUE(verify_campaign(world_.path())->ok());
}

TEST(EarlierMemory, ARecordThatCalledItAFailureIsReadAsNotMeasured) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  ASSERT_TRUE(world.create());
  const knowledge::Memory memory = *knowledge::Memory::init(world.path());
  record::Iteration earlier;
  earlier.optimization = {"tile", "of an earlier campaign", {}, {}};
  earlier.quality_gate = {record::IterationStatus::kFail, "build: no evaluation: not measured: the budget is used up"};
  earlier.references = {{"candidate", "0123", "unsettled"}};
  ASSERT_TRUE(memory.create(earlier, world.clock));
  ASSERT_TRUE(world.run());
  const record::ProposalRequest& first = world.proposer.requests.front();
  ASSERT_FALSE(first.memory.empty());
  EXPECT_EQ(first.memory[0].quality_gate.result, record::IterationStatus::kNotMeasured);
  EXPECT_EQ(first.memory[0].correctness.status, record::IterationStatus::kNotMeasured);
}

}  // namespace
}  // namespace ridge::campaign::test
