#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/files.h"
#include "journal/fold.h"
#include "record/json.h"
#include "report/fixture/campaigns.h"
#include "report/ratios.h"
#include "report/report.h"

namespace ridge::report {
namespace {

using ::testing::HasSubstr;

Model model_of(const fixture::JournalBuilder& journal) {
  const Result<Model> model = fold(journal.events());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
  return model.ok() ? *model : Model{};
}

TEST(Fold, CountsAcceptedAndRolledBackRounds) {
  const Model model = model_of(fixture::nine_rounds());
  EXPECT_EQ(model.rounds.size(), 9U);
  EXPECT_EQ(model.accepted, 4);
  EXPECT_EQ(model.rolled_back, 4);
  EXPECT_EQ(std::count_if(model.rounds.begin(), model.rounds.end(),
                          [](const auto& r) { return r.state == record::RoundState::kNotSettled; }),
            1);                   // its sessions could not tell
  EXPECT_EQ(model.decisions, 6);  // a crash, a wrong result and a screened-out change use no share of alpha
  EXPECT_EQ(model.state, "finished");
  EXPECT_EQ(model.termination->condition, "T2");
}

TEST(Fold, TakesTheFinalMeasurementAsTheHeadlineAndKeepsTheProductBesideIt) {
  const Model model = model_of(fixture::nine_rounds());
  ASSERT_TRUE(model.total.has_value());
  EXPECT_EQ(model.total_source, "final");
  // The fixture's true gain: 1.48 + 0.29 + 0.17 + 0.085, and the mean of the gains per shape.
  const double truth = std::exp(1.48 + 0.29 + 0.17 + 0.085 + (-0.06 + 0.19 + 0.08) / 5);
  EXPECT_NEAR(model.total->ratio / truth, 1, 0.03);
  EXPECT_NEAR(model.product_of_accepted / truth, 1, 0.03);
  EXPECT_NEAR(model.rounds.back().speed / truth, 1, 0.03);
}

// The campaign's own tables hold the median over all launches that count, those of the screening among them.
TEST(Fold, ALatencyIsTheOneOfTheCampaignsTables) {
  const auto session = [](const char* role, double incumbent, double candidate, bool voided) {
    record::Session one;
    one.role = role;
    one.voided = voided;
    one.shapes = {{"m=1", {{"ABBA", {{incumbent}, {candidate}, {candidate}, {incumbent}}}}}};
    return one;
  };
  const std::vector<record::Session> sessions = {session("screen", 4, 1, false), session("confirm", 4, 3, false),
                                                 session("confirm", 9, 9, true)};
  EXPECT_EQ(arm_latency(sessions, "m=1", record::Arm::kIncumbent), 4);
  EXPECT_EQ(arm_latency(sessions, "m=1", record::Arm::kCandidate), 2);
  EXPECT_EQ(arm_latency(std::span(sessions).first(1), "m=1", record::Arm::kCandidate), 1);
  EXPECT_TRUE(std::isnan(arm_latency(std::span(sessions).last(1), "m=1", record::Arm::kCandidate)));
}

TEST(Fold, WithoutAFinalMeasurementTheTotalIsTheProductAndSaysSo) {
  const Model model = model_of(fixture::paused_in_a_round());
  ASSERT_TRUE(model.total.has_value());
  EXPECT_EQ(model.total_source, "product");
  EXPECT_NEAR(model.total->ratio, std::exp(1.48), 0.2);
}

TEST(Fold, AProductsIntervalIsWiderThanAnyFactors) {
  const Model model = model_of(fixture::sixty_rounds());
  const auto width = [](const record::Effect& e) { return std::log(e.high / e.low); };
  for (const auto& round : model.rounds) {
    if (round.state == record::RoundState::kAccepted) {
      EXPECT_GT(width(*model.total), width(*round.measured));
    }
  }
}

TEST(Fold, LinksEveryAcceptedKernelToTheOneBefore) {
  const Model model = model_of(fixture::nine_rounds());
  ASSERT_EQ(model.lineage.size(), 5U);
  for (std::size_t i = 1; i < model.lineage.size(); ++i) EXPECT_EQ(model.lineage[i].parent, model.lineage[i - 1].id);
  EXPECT_EQ(model.lineage.back().id, model.best_id);
}

TEST(Fold, SplitsTheActiveTimeWithoutRemainder) {
  for (const auto& [name, journal] : fixture::all_campaigns()) {
    const Model model = model_of(journal);
    double sum = 0;
    for (const auto& part : model.time) {
      EXPECT_GE(part.seconds, 0) << name << " " << part.activity;
      sum += part.seconds;
    }
    EXPECT_NEAR(sum, model.active_seconds, 1e-6) << name;
  }
}

TEST(Fold, KnowsWhereTheCampaignStands) {
  EXPECT_EQ(model_of(fixture::only_created()).state, "created");
  EXPECT_EQ(model_of(fixture::single_shape()).state, "running");
  const Model paused = model_of(fixture::paused_in_a_round());
  EXPECT_EQ(paused.state, "paused");
  EXPECT_THAT(paused.detail, HasSubstr("the wall budget of this shell ended"));
  EXPECT_EQ(paused.rounds.back().state, record::RoundState::kUnfinished);
  EXPECT_THAT(paused.rounds.back().reason, HasSubstr("paused before this round was decided"));
}

TEST(Fold, AnAcceptedRoundCountsOnlyOnceItIsCommitted) {
  const fixture::JournalBuilder journal = fixture::nine_rounds();
  const auto& events = journal.events();
  const auto decided = std::find_if(events.begin(), events.end(),
                                    [](const auto& event) { return event.kind == record::EventKind::kDecided; });
  const Result<Model> model = fold({events.data(), static_cast<std::size_t>(decided - events.begin()) + 1});
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->accepted, 0);
  EXPECT_EQ(model->rounds[0].state, record::RoundState::kUnfinished);
  EXPECT_THAT(model->rounds[0].reason, HasSubstr("not committed"));
}

TEST(Fold, EveryPrefixOfAJournalGivesAReport) {
  const fixture::JournalBuilder journal = fixture::nine_rounds();
  for (std::size_t count = 0; count <= journal.events().size(); ++count) {
    const Result<Model> model = fold({journal.events().data(), count});
    ASSERT_TRUE(model.ok()) << count;
    EXPECT_FALSE(html(*model).empty());
    EXPECT_FALSE(status_text(*model).empty());
  }
}

TEST(Fold, SaysWhatARoundChanged) {
  const Model model = model_of(fixture::nine_rounds());
  EXPECT_EQ(model.rounds[0].changed, (std::map<std::string, std::int64_t>{{"MR", 6}, {"NR", 16}}));
  EXPECT_TRUE(model.rounds[0].source_diff.empty());
  EXPECT_EQ(model.rounds[2].changed_files, std::vector<std::string>{"kernel.cpp"});
  EXPECT_THAT(model.rounds[2].source_diff, HasSubstr("+  const float* b = pack_b(call);\n"));
}

TEST(Fold, ASessionThatOnlyScreenedIsNotAMeasurement) {
  const Model model = model_of(fixture::nine_rounds());
  const auto& round = model.rounds[5];
  EXPECT_FALSE(round.measured.has_value());
  ASSERT_TRUE(round.screened.has_value());
  EXPECT_NEAR(*round.screened, std::exp(-0.018), 0.05);
}

TEST(Fold, ARefusedAnswerBelongsToTheRoundItDelayed) {
  const Model model = model_of(fixture::nine_rounds());
  EXPECT_EQ(model.rounds.size(), 9U);
  ASSERT_EQ(model.rounds[4].refused.size(), 1U);
  EXPECT_THAT(model.rounds[4].refused[0], HasSubstr("measured in round 5"));
}

TEST(Fold, MoreBudgetReopensACampaignThatHadEnded) {
  fixture::JournalBuilder journal = fixture::nine_rounds();
  journal.extend_budget(900);
  const Model model = model_of(journal);
  EXPECT_EQ(model.state, "running");
  EXPECT_FALSE(model.termination.has_value());
  EXPECT_EQ(model.total_source, "product");
}

// Verdicts of the rules are those of the report that closed it; a campaign that goes on has none yet.
TEST(Fold, AReopenedCampaignShowsItsNewBudgetAndNoVerdictsOfItsOldEnd) {
  fixture::JournalBuilder journal = fixture::nine_rounds();
  record::Reported reported;
  reported.rules = {{1, "parameters", record::Phase::kDefineTarget, record::RuleVerdict::kPass, "filled", ""}};
  journal.add(record::EventKind::kReported, reported, 0.1);
  ASSERT_EQ(model_of(journal).rules.size(), 1U);
  journal.extend_budget(900);
  const Model model = model_of(journal);
  EXPECT_TRUE(model.rules.empty());
  EXPECT_EQ(model.spec.wall_budget, 900);
  EXPECT_THAT(status_text(model), HasSubstr("of 15 min 0 s"));
}

// What a worker says of its own speed counts nowhere: not for a shape that it did not time, and not in a bound.
TEST(Fold, ALatencyIsOfTimedLaunchesAndABoundIsTheBaselines) {
  std::vector<record::Event> events = fixture::nine_rounds().events();
  std::string untimed;
  std::size_t changed = 0;
  for (record::Event& event : events) {
    if (event.kind != record::EventKind::kEvaluated) continue;
    auto evaluated = *record::from_json<record::Evaluated>(event.payload, "evaluated");
    if (evaluated.evaluation.sessions.empty()) continue;
    untimed = evaluated.evaluation.roofline.at(0).label;
    for (record::RooflinePoint& point : evaluated.evaluation.roofline) point.latency = point.bound_time = 1e-12;
    for (record::Session& session : evaluated.evaluation.sessions) session.shapes.erase(session.shapes.begin());
    event.payload = record::to_json(evaluated);
    ++changed;
  }
  ASSERT_GT(changed, 0U);
  const Result<Model> model = fold(events);
  ASSERT_TRUE(model.ok()) << model.error().text();
  for (const auto& round : model->rounds) {
    for (const auto& trial : round.trials) {
      for (const auto& point : trial.roofline) {
        EXPECT_NE(point.label, untimed);
        EXPECT_GT(point.latency, 1e-9);
        EXPECT_EQ(point.bound_time, std::find_if(model->shapes.begin(), model->shapes.end(), [&](const auto& shape) {
                                      return shape.label == point.label;
                                    })->bound_time);
      }
    }
  }
}

// The time of an effect begins with its intent, as in the campaign's own table of costs.
TEST(Fold, TheTimeOfAnEffectIsTheOneOfTheTableOfCosts) {
  fixture::JournalBuilder journal = fixture::only_created();
  journal.confirm();
  journal.prepare();
  const Result<journal::State> state = journal::fold(journal.events());
  ASSERT_TRUE(state.ok());
  const auto row = std::find_if(state->costs.begin(), state->costs.end(),
                                [](const auto& cost) { return cost.kind == record::EventKind::kPrepared; });
  ASSERT_NE(row, state->costs.end());
  const Model model = model_of(journal);
  const auto time = std::find_if(model.time.begin(), model.time.end(),
                                 [](const auto& part) { return part.activity == "measure the ceilings"; });
  ASSERT_NE(time, model.time.end());
  EXPECT_NEAR(row->seconds, 4.12, 1e-9);
  EXPECT_EQ(time->seconds, row->seconds);
}

// The chain of the lines is intact, and the story is impossible.
TEST(Fold, RefusesAStoryThatNoCampaignHas) {
  fixture::JournalBuilder journal = fixture::nine_rounds();
  journal.add(record::EventKind::kCommitted, record::Committed{7, std::string(64, 'f'), ""}, 0.1);
  const Result<Model> model = fold(journal.events());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("no round is open"));
}

TEST(Fold, RefusesEvidenceOfRollbacksBeforeThereIsABaseline) {
  fixture::JournalBuilder journal = fixture::only_created();
  journal.add(record::EventKind::kEscalated, record::Escalated{}, 0.1);
  const Result<Model> model = fold(journal.events());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("the baseline is not committed"));
}

TEST(Fold, AnUnknownKeyNamesTheEvent) {
  std::vector<record::Event> events = fixture::only_created().events();
  events[0].payload["surprise"] = 1;
  const Result<Model> model = fold(events);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("journal line 1: created"));
  EXPECT_THAT(model.error().message, HasSubstr("surprise"));
}

TEST(Load, RefusesAnEditedJournalAndAcceptsATornTail) {
  const Result<TempDir> folder = TempDir::create("ridge-report");
  ASSERT_TRUE(folder.ok());
  const auto path = folder->path() / "journal.jsonl";
  const std::string text = fixture::single_shape().text();
  ASSERT_TRUE(write_file_durably(path, text + "{\"seq").ok());
  const Result<Model> torn = load(folder->path());
  ASSERT_TRUE(torn.ok());
  EXPECT_EQ(torn->torn_bytes, 5);

  std::string edited = text;
  edited.replace(edited.find("Pack B"), 6, "Pack C");
  ASSERT_TRUE(write_file_durably(path, edited).ok());
  const Result<Model> refused = load(folder->path());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("journal line"));
  EXPECT_FALSE(load(folder->path() / "nowhere").ok());
}

record::Session session_of(double ratio, double drift) {
  record::Session session;
  record::Quad quad{"ABBA", {}};
  double latency = 1;
  for (const char arm : quad.order) {
    quad.blocks.push_back({latency / (arm == 'B' ? ratio : 1.0)});
    latency *= drift;
  }
  session.shapes = {{"x", {quad, quad}}};
  return session;
}

TEST(Ratios, ASteadyDriftCancelsInsideAQuad) {
  for (const double drift : {0.9, 1.0, 1.2}) EXPECT_NEAR(reduce(session_of(2, drift)).suite, std::log(2), 1e-12);
}

TEST(Ratios, UnusableSamplesGiveNoNumberAndCostOnlyTheirShape) {
  record::Session session = session_of(2, 1);
  session.shapes.push_back({"empty", {}});
  session.shapes.push_back({"zero", {{"ABBA", {{1}, {0}, {1}, {1}}}}});
  const record::SessionRatios ratios = reduce(session);
  EXPECT_NEAR(ratios.shapes.at("x"), std::log(2), 1e-12);
  EXPECT_TRUE(std::isnan(ratios.shapes.at("empty")));
  EXPECT_TRUE(std::isnan(ratios.shapes.at("zero")));
  EXPECT_TRUE(std::isnan(ratios.suite));
}

TEST(Json, IsTheModelAndReadsBack) {
  for (const auto& [name, journal] : fixture::all_campaigns()) {
    const Model model = model_of(journal);
    const std::string text = json(model);
    const auto again = record::parse_record<record::Report>(text);
    ASSERT_TRUE(again.ok()) << name << ": " << again.error().text();
    EXPECT_EQ(json(*again), text) << name;
  }
}

}  // namespace
}  // namespace ridge::report
