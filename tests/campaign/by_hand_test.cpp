// A campaign in which the engine's search, programs and people take turns.
#include <gmock/gmock.h>

#include "base/error.h"
#include "campaign/proposal_rules.h"
#include "campaign/verify.h"
#include "places.h"
#include "propose/manual.h"
#include "report/report.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::RoundState;
using testing::HasSubstr;

// A source with a tunable, for values by hand.
const char* const kSource =
    "/* ridge-tunables\n[[tunable]]\nname = \"SPEED\"\nvalues = [50, 100, 120, 150, 180, 300, 997]\ndefault = 100\n"
    "category = \"layout\"\ntitle = \"speed\"\n*/\nint kernel;\n";

record::Proposal scripted(std::int64_t speed) {
  return make_proposal({make_candidate(speed, kSource)}, "SCRIPT" + std::to_string(speed));
}

propose::ByHand by_hand(std::int64_t speed, double expected = 0.5) {
  propose::ByHand stated;
  stated.by = "ada";
  stated.hypothesis.title = "by hand: speed " + std::to_string(speed);
  stated.hypothesis.reasoning = "seen in a profile";
  stated.hypothesis.expected_gain = expected;
  stated.change.defines = {{"SPEED", speed}};
  return stated;
}

class ByHandTest : public testing::Test {
 protected:
  void SetUp() override {
    world_.baseline = make_candidate(100, kSource);
    const Result<std::unique_ptr<propose::Proposer>> manual = propose::make_proposer("manual");
    ASSERT_TRUE(manual);
    const Result<RunResult> paused = run(**manual);
    ASSERT_TRUE(paused) << paused.error().text();
    ASSERT_EQ(paused->end, RunEnd::kPaused);
    EXPECT_THAT(paused->reason,
                HasSubstr("waits for a round by hand: ridge campaign propose " + world_.path().string()));
  }
  Result<RunResult> run(propose::Proposer& proposer, std::optional<std::int64_t> rounds = {},
                        std::optional<Standpoint> expected = {}) {
    if (!std::filesystem::exists(world_.path() / "journal.jsonl")) RIDGE_CHECK_OK(world_.create());
    EngineOptions options;
    options.data = source_dir() / "data";
    options.directory = world_.path();
    options.rounds = rounds;
    options.expected = std::move(expected);
    RIDGE_TRY(engine, Engine::open(std::move(options),
                                   Services{world_.executor, proposer, world_.clock, world_.git.get(), nullptr}));
    return engine->run();
  }
  Result<RunResult> propose_by_hand(const propose::ByHand& stated, std::optional<Standpoint> expected = {}) {
    const std::unique_ptr<propose::Proposer> proposer = propose::make_by_hand(stated);
    return run(*proposer, {}, std::move(expected));
  }
  // A round whose kernel does not build: it stays open for a repair.
  static propose::ByHand broken() {
    propose::ByHand stated = by_hand(0);
    std::string source = kSource;
    source.replace(source.find("[50,"), 4, "[-1, 50,");
    stated.change.sources = {{"kernel.cpp", source + "int more;\n"}};
    stated.change.defines = {{"SPEED", kDoesNotCompile}};
    return stated;
  }
  World world_{one_per_round({scripted(150), scripted(150), scripted(180), scripted(300)})};
};

TEST_F(ByHandTest, ARoundByHandIsBuiltCheckedMeasuredDecidedAndCommitted) {
  const Result<RunResult> ended = propose_by_hand(by_hand(150));
  ASSERT_TRUE(ended) << ended.error().text();
  EXPECT_EQ(ended->end, RunEnd::kPaused);  // for the next one
  const State state = world_.state();
  ASSERT_EQ(state.rounds.size(), 1u) << ended->reason;
  EXPECT_EQ(state.rounds[0].state(), RoundState::kAccepted);
  EXPECT_EQ(state.rounds[0].last().proposer, "manual:ada");
  EXPECT_EQ(state.decisions_used, 1);
  const record::Hypothesis& h = state.rounds[0].last().proposal.hypothesis;
  EXPECT_EQ(h.mechanism, "SPEED");
  EXPECT_EQ(h.category, "layout");
  EXPECT_EQ(h.bottleneck, "compute");
  EXPECT_TRUE(verify_campaign(world_.path())->ok());
  EXPECT_TRUE(replay_campaign(world_.path())->ok());
}

TEST_F(ByHandTest, ProposersTakeTurnsAndEveryRoundNamesItsOwn) {
  ASSERT_TRUE(propose_by_hand(by_hand(120)));
  const Result<RunResult> turn = run(world_.proposer, 1);
  ASSERT_TRUE(turn) << turn.error().text();
  EXPECT_EQ(turn->end, RunEnd::kPaused);
  EXPECT_THAT(turn->reason, HasSubstr("the 1 rounds that this run was asked for are closed"));
  ASSERT_TRUE(propose_by_hand(by_hand(50)));  // slower
  ASSERT_TRUE(propose_by_hand(by_hand(300)));
  const State state = world_.state();
  ASSERT_EQ(state.rounds.size(), 4u);
  EXPECT_EQ(state.rounds[0].last().proposer, "manual:ada");
  EXPECT_EQ(state.rounds[1].last().proposer, "scripted");
  EXPECT_EQ(state.rounds[2].state(), RoundState::kRolledBack);
  EXPECT_EQ(state.rounds[3].state(), RoundState::kAccepted);
  EXPECT_EQ(state.rounds[3].last().proposal.hypothesis.informed_by, 4);  // by itself
  // Run to the end by the script, verified and replayed as a whole.
  ASSERT_TRUE(extend_budget(world_.path(), {0, 5}, world_.clock));
  const Result<RunResult> ended = run(world_.proposer);
  ASSERT_TRUE(ended) << ended.error().text();
  EXPECT_EQ(ended->end, RunEnd::kDone) << ended->reason;
  EXPECT_TRUE(verify_campaign(world_.path())->ok()) << verify_campaign(world_.path())->text();
  EXPECT_TRUE(replay_campaign(world_.path())->ok());
  EXPECT_THAT(*read_file(world_.path() / "logs/optimize.md"), HasSubstr("- Proposer: manual:ada\n"));
  EXPECT_THAT(*read_file(world_.path() / "logs/optimize.md"), HasSubstr("- Proposer: scripted\n"));
  EXPECT_THAT(*read_file(world_.path() / "rounds/round-2/summary.md"), HasSubstr("- Proposer: manual:ada\n"));
  EXPECT_EQ(report::load(world_.path())->rounds[0].proposer, "manual:ada");
  EXPECT_EQ(world_.proposer.requests.back().history[0].proposer, "manual:ada");
  // An ended campaign takes no round, and says what would help.
  const Status refused = takes_a_round(world_.state(), world_.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("has ended"));
  EXPECT_THAT(refused.error().hint, HasSubstr("ridge campaign extend"));
}

TEST_F(ByHandTest, AKernelThatDoesNotBuildLeavesItsRoundOpenForARepair) {
  ASSERT_TRUE(propose_by_hand(broken()));
  ASSERT_EQ(world_.state().rounds.size(), 1u);
  const Round open = world_.state().rounds[0];
  EXPECT_FALSE(open.closed());
  EXPECT_TRUE(repair_is_due(open));
  EXPECT_TRUE(takes_a_round(world_.state(), world_.path()));
  propose::ByHand repaired = broken();
  repaired.hypothesis = open.last().proposal.hypothesis;
  repaired.change.defines = {{"SPEED", 150}};
  ASSERT_TRUE(propose_by_hand(repaired));
  const State state = world_.state();
  ASSERT_EQ(state.rounds.size(), 1u);
  EXPECT_EQ(state.rounds[0].attempts.size(), 2u);
  EXPECT_EQ(state.rounds[0].state(), RoundState::kAccepted);
  EXPECT_TRUE(replay_campaign(world_.path())->ok());
}

TEST_F(ByHandTest, AFailedRoundMayBeGivenUp) {
  ASSERT_TRUE(propose_by_hand(broken()));
  propose::ByHand up;
  up.give_up = "given up by hand";
  ASSERT_TRUE(propose_by_hand(up));
  const State state = world_.state();
  ASSERT_EQ(state.rounds.size(), 1u);
  EXPECT_EQ(state.rounds[0].state(), RoundState::kRolledBack);
  EXPECT_EQ(state.rounds[0].decision->outcome, record::Outcome::kCompile);
  EXPECT_FALSE(state.exhausted);
}

TEST_F(ByHandTest, AnAbsurdExpectationIsRefusedWithWhatIsPossible) {
  const record::ProposalRequest request = proposal_request(world_.state());
  const Result<record::Proposal> dream = propose::proposal_by_hand(request, by_hand(150, 80));  // the bound is 10x
  ASSERT_FALSE(dream);
  EXPECT_THAT(dream.error().message,
              HasSubstr("an expected gain of 8000 %: the best so far is at 10 % of its measured"));
  EXPECT_THAT(dream.error().hint, HasSubstr("--expect 8%"));
  const Result<record::Proposal> nothing = propose::proposal_by_hand(request, by_hand(150, 0.001));
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("accepts gains above 1 %"));
  EXPECT_FALSE(propose::proposal_by_hand(request, by_hand(150, NAN)));
  EXPECT_TRUE(propose::proposal_by_hand(request, by_hand(150, 0.08)));
}

TEST_F(ByHandTest, TheRulesHoldForItToo) {
  const State state = world_.state();
  const Result<record::Proposal> undeclared = propose::proposal_by_hand(proposal_request(state), by_hand(151));
  ASSERT_FALSE(undeclared);
  EXPECT_THAT(undeclared.error().message, HasSubstr("SPEED"));
  EXPECT_FALSE(propose::proposal_by_hand(proposal_request(state), by_hand(100)));  // changes nothing
  ASSERT_TRUE(propose_by_hand(by_hand(50)));                                       // slower
  const State after = world_.state();
  const record::Proposal again = *propose::proposal_by_hand(proposal_request(after), by_hand(50));
  EXPECT_THAT(refuse(again, after), HasSubstr("round 2 measured this very candidate"));
}

TEST_F(ByHandTest, AStopIsHeardWhileItWaits) {
  ASSERT_TRUE(propose_by_hand(by_hand(150)));
  ASSERT_TRUE(request_stop(world_.path()));
  const Result<std::unique_ptr<propose::Proposer>> manual = propose::make_proposer("manual");
  const Result<RunResult> ended = run(**manual);
  ASSERT_TRUE(ended) << ended.error().text();
  EXPECT_EQ(ended->end, RunEnd::kDone) << ended->reason;
  EXPECT_EQ(world_.state().termination->condition, "T4");
  EXPECT_EQ(world_.state().rounds.size(), 1u);
}

// A campaign that waits for a repair hears a stop, and ends when its budget is used up: nothing else would end it.
TEST_F(ByHandTest, ARoundThatWaitsForARepairEndsWithAStopOrTheBudget) {
  const Result<std::unique_ptr<propose::Proposer>> manual = propose::make_proposer("manual");
  ASSERT_TRUE(propose_by_hand(broken()));
  const Result<RunResult> waiting = run(**manual);
  ASSERT_TRUE(waiting && waiting->waits);
  ASSERT_FALSE(world_.state().rounds[0].closed());
  ASSERT_TRUE(request_stop(world_.path()));
  const Result<RunResult> stopped = run(**manual);
  ASSERT_TRUE(stopped) << stopped.error().text();
  EXPECT_EQ(stopped->end, RunEnd::kDone) << stopped->reason;
  EXPECT_EQ(world_.state().termination->condition, "T4");
  ASSERT_EQ(world_.state().rounds.size(), 1u);
  EXPECT_EQ(world_.state().rounds[0].decision->outcome, record::Outcome::kCompile);

  ASSERT_TRUE(extend_budget(world_.path(), {0, 20}, world_.clock));
  ASSERT_TRUE(propose_by_hand(by_hand(150)));
  propose::ByHand again = broken();
  again.change.sources[0].text += "int other;\n";
  ASSERT_TRUE(propose_by_hand(again));
  ASSERT_NE(world_.state().open_round(), nullptr);
  ASSERT_TRUE(extend_budget(world_.path(), {1e-3, 20}, world_.clock));  // less than was used
  const Result<RunResult> used_up = run(**manual);
  ASSERT_TRUE(used_up) << used_up.error().text();
  EXPECT_EQ(used_up->end, RunEnd::kDone) << used_up->reason;
  EXPECT_EQ(world_.state().termination->condition, "T5");
  EXPECT_TRUE(world_.state().rounds.back().closed());
}

// What was stated is for one state of the campaign: another process may have worked on it before the lock was ours.
TEST_F(ByHandTest, ACampaignThatMovedOnTakesNothingThatWasStatedBefore) {
  const auto not_taken = [&](const propose::ByHand& stated, const Standpoint& seen) {
    const std::string before = *read_file(world_.path() / "journal.jsonl");
    const Result<RunResult> late = propose_by_hand(stated, seen);
    ASSERT_FALSE(late) << late->reason;
    EXPECT_EQ(late.error().code, ErrorCode::kConflict);
    EXPECT_THAT(late.error().message, HasSubstr("moved on"));
    EXPECT_THAT(late.error().hint, HasSubstr("propose again"));
    EXPECT_EQ(*read_file(world_.path() / "journal.jsonl"), before);
  };
  const Standpoint first = standpoint_of(world_.state());
  ASSERT_TRUE(propose_by_hand(broken(), first));
  not_taken(by_hand(150), first);  // it would be a repair of a round of someone else
  const Standpoint failed = standpoint_of(world_.state());
  EXPECT_EQ(failed.round, first.round);
  EXPECT_EQ(failed.attempts, 1u);
  propose::ByHand up;
  up.give_up = "given up by hand";
  ASSERT_TRUE(propose_by_hand(up, failed));
  not_taken(up, failed);  // without an open round it would end the campaign
  EXPECT_FALSE(world_.state().exhausted);
  ASSERT_TRUE(propose_by_hand(by_hand(150), standpoint_of(world_.state())));
  EXPECT_EQ(world_.state().rounds.size(), 2u);
}

TEST_F(ByHandTest, OneAtATime) {
  const Result<CampaignLock> held = CampaignLock::acquire(world_.path());
  ASSERT_TRUE(held);
  const Result<RunResult> second = propose_by_hand(by_hand(150));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("is working on the campaign"));
}

}  // namespace
}  // namespace ridge::campaign::test
