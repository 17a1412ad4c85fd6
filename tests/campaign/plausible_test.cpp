#include "campaign/plausible.h"

#include "base/coin.h"
#include "campaign/verify.h"
#include "forgery.h"

namespace ridge::campaign::test {
namespace {

record::Evaluation honest() { return make_evaluation(make_candidate(100), make_candidate(150)); }
std::string objection(const record::Evaluation& evaluation) { return session_objection(evaluation.sessions); }

TEST(Plausible, HonestSessionsPassWhateverTheirClockAndStamps) {
  record::Evaluation evaluation = honest();
  EXPECT_EQ(objection(evaluation), "");
  for (record::Session& session : evaluation.sessions) {
    session.guards["clock_step"] = 1e-10;
    for_each_launch(session, [](double& seconds) { seconds = std::round(seconds / 1e-10) * 1e-10; });
  }
  EXPECT_EQ(objection(evaluation), "");
  for (record::Session& session : evaluation.sessions) session.guards.clear();  // of an older version
  EXPECT_EQ(objection(evaluation), "");
  EXPECT_EQ(unstamped(evaluation.sessions), static_cast<std::int64_t>(evaluation.sessions.size()));
}

// Gives every session a coin of its own, and its quads the orders of that.
void flip_coins(record::Evaluation& evaluation) {
  for (record::Session& session : evaluation.sessions) {
    const std::uint64_t seed = 1000u + static_cast<std::uint64_t>(session.index);
    session.guards["coin"] = static_cast<double>(seed);
    Coin coin(seed);
    coin.flip();
    for (record::ShapeSamples& shape : session.shapes) {
      coin.flip();
      for (record::Quad& quad : shape.quads) {
        const std::string order = coin.order();
        if (order != quad.order) {
          std::swap(quad.blocks[0], quad.blocks[1]);
          std::swap(quad.blocks[2], quad.blocks[3]);
        }
        quad.order = order;
      }
    }
  }
}

TEST(Plausible, TheArmsRanInTheOrderOfTheSessionsCoin) {
  record::Evaluation evaluation = honest();
  flip_coins(evaluation);
  EXPECT_EQ(objection(evaluation), "");
  record::Evaluation other = evaluation;
  std::string& order = other.sessions[2].shapes.back().quads.back().order;
  order = order == "ABBA" ? "BAAB" : "ABBA";
  EXPECT_NE(objection(other).find("the order that its coin gives"), std::string::npos) << objection(other);
  other = evaluation;
  other.sessions[4] = other.sessions[3];
  EXPECT_NE(objection(other), "");
  other = evaluation;  // a copy with other times still has the coin
  record::Session& copy = other.sessions[4];
  const auto began = copy.guards["began"];
  copy = other.sessions[3];
  copy.index = 4;
  copy.guards["began"] = began;
  int count = 0;
  for_each_launch(copy, [&](double& seconds) { seconds *= 1 + 0.01 * (++count % 7); });
  EXPECT_NE(objection(other).find("have the same coin"), std::string::npos) << objection(other);
  evaluation.sessions[0].guards["coin"] = 0.5;
  EXPECT_NE(objection(evaluation).find("no seed of a coin"), std::string::npos) << objection(evaluation);
}

// A project's table with two digits: its sessions are alike, and that says nothing.
TEST(Plausible, SessionsOfACoarseClockMayBeAlike) {
  std::vector<record::Session> sessions;
  for (int i = 0; i < 20; ++i) {
    record::Session session{.index = i, .role = "confirm"};
    session.guards["began"] = 5.0 * i;
    for (const std::string& shape : kShapes) {
      session.shapes.push_back({shape, {{"ABBA", {{0.12}, {0.10}, {0.10}, {i % 2 == 0 ? 0.12 : 0.13}}}}});
    }
    sessions.push_back(session);
  }
  EXPECT_EQ(session_objection(sessions), "");
}

TEST(Plausible, RefusesARepeatedSessionAlsoWhenAnArmWasScaled) {
  for (const double factor : {1.0, 1.42}) {
    record::Evaluation evaluation = honest();
    repeat_sessions(evaluation, evaluation.sessions.size() + 1);
    scale_candidate(evaluation.sessions.back(), factor);
    EXPECT_NE(objection(evaluation).find("are one measurement"), std::string::npos) << objection(evaluation);
  }
  record::Evaluation evaluation = honest();  // rounded to the clock's step after it was scaled
  repeat_sessions(evaluation, evaluation.sessions.size() + 1);
  scale_candidate(evaluation.sessions.back(), 1.42);
  for (record::Session& session : evaluation.sessions) {
    session.guards["clock_step"] = 1e-10;
    for_each_launch(session, [](double& seconds) { seconds = std::round(seconds / 1e-10) * 1e-10; });
  }
  EXPECT_NE(objection(evaluation).find("are one measurement"), std::string::npos) << objection(evaluation);
}

TEST(Plausible, RefusesACandidateThatIsTheIncumbentScaled) {
  record::Evaluation evaluation = honest();
  for (record::ShapeSamples& shape : evaluation.sessions[3].shapes) {
    for (record::Quad& quad : shape.quads) {
      for (std::size_t b : {0u, 3u}) {
        const std::size_t from = b == 0 ? 1 : 2;
        quad.blocks[quad.order == "ABBA" ? from : b] = quad.blocks[quad.order == "ABBA" ? b : from];
        for (double& seconds : quad.blocks[quad.order == "ABBA" ? from : b]) seconds /= 1.5;
      }
    }
  }
  EXPECT_NE(objection(evaluation).find("both arms agree"), std::string::npos) << objection(evaluation);
}

// Of a campaign that is decided on a column: other values than the times, in the processes of the same sessions.
record::Evaluation with_column(record::Evaluation evaluation) {
  const record::Candidate a = make_candidate(100), b = make_candidate(150, "int rates;\n");
  for (record::Session& session : evaluation.sessions) {
    session.columns.push_back({"Tokens/s", record::ColumnSamples::Holds::kHigher,
                               make_session(a, b, session.index, session.role, kShapes, "rates").shapes});
  }
  return evaluation;
}

TEST(Plausible, RefusesACopiedColumn) {
  EXPECT_EQ(objection(with_column(honest())), "");
  record::Evaluation repeated = with_column(honest());
  repeated.sessions[4].columns = repeated.sessions[2].columns;
  EXPECT_NE(objection(repeated).find("sessions 2 and 4 are one measurement"), std::string::npos) << objection(repeated);
  record::Evaluation scaled = with_column(honest());
  for (record::ShapeSamples& shape : scaled.sessions[3].columns.front().shapes) {
    for (record::Quad& quad : shape.quads) {
      std::vector<const std::vector<double>*> incumbent;
      for (std::size_t i = 0; i < quad.order.size(); ++i) {
        if (quad.order[i] == 'A') incumbent.push_back(&quad.blocks[i]);
      }
      std::size_t next = 0;
      for (std::size_t i = 0; i < quad.order.size(); ++i) {
        if (quad.order[i] == 'A') continue;
        quad.blocks[i] = *incumbent.at(next++);
        for (double& value : quad.blocks[i]) value *= 1.5;
      }
    }
  }
  EXPECT_NE(objection(scaled).find("the values of \"Tokens/s\" of both arms agree"), std::string::npos)
      << objection(scaled);
}

TEST(Plausible, RefusesStampsThatOneClockCannotGive) {
  record::Evaluation evaluation = honest();
  evaluation.sessions[4].guards["began"] = evaluation.sessions[3].guards["began"];
  EXPECT_NE(objection(evaluation).find("same instant"), std::string::npos);
  evaluation = honest();
  evaluation.sessions[4].guards["began"] = 15;  // the clock goes back
  EXPECT_NE(objection(evaluation).find("before session 3 had ended"), std::string::npos) << objection(evaluation);
  evaluation = honest();
  evaluation.sessions[3].guards["wall"] = 12;  // ten seconds lie between them
  EXPECT_NE(objection(evaluation).find("before session 3 had ended"), std::string::npos);
  evaluation = honest();
  evaluation.sessions[3].guards.erase("began");
  EXPECT_NE(objection(evaluation).find("do not say when"), std::string::npos);
}

TEST(Plausible, RefusesATimeBetweenTheStepsOfItsClock) {
  record::Evaluation evaluation = honest();
  evaluation.sessions[2].guards["clock_step"] = 1e-10;
  EXPECT_NE(objection(evaluation).find("lies between two steps"), std::string::npos);
  evaluation.sessions[2].guards["clock_step"] = 0;
  EXPECT_NE(objection(evaluation), "");
}

// The attack on a whole campaign: halted, scaled, repeated, chained anew, resumed.
TEST(Plausible, ACampaignDoesNotAcceptRepeatedSessions) {
  World world(one_per_round({make_proposal({make_candidate(100, "#define SPEED 100\nint k;\n")})}));
  ASSERT_TRUE(world.run());
  bend_last_evaluation(world.path(), [](record::Evaluation& evaluation) {
    evaluation.outcome = record::Outcome::kPass;
    repeat_sessions(evaluation, 20);
    for (record::Session& session : evaluation.sessions) scale_candidate(session, 1.42);
  });
  ASSERT_TRUE(world.run());
  const record::Decision& decision = *world.state().rounds.at(0).decision;
  EXPECT_FALSE(decision.accepted);
  EXPECT_NE(decision.reason.find("are one measurement"), std::string::npos) << decision.reason;
  const VerifyReport report = *verify_campaign(world.path());
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.text().find("are one measurement"), std::string::npos) << report.text();
}

TEST(Plausible, VerifyFindsSessionsOfAnotherLineAndTimeThatWasNotThere) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(180)}, "SLOWER")}));
  ASSERT_TRUE(world.run());
  ASSERT_TRUE(verify_campaign(world.path())->ok());
  const std::vector<record::Event> honest_events = record::read_journal(world.path() / "journal.jsonl")->events;
  std::vector<record::Session> first;
  std::vector<record::Event> events = honest_events;
  for (record::Event& event : events) {
    if (event.kind != record::EventKind::kEvaluated) continue;
    auto evaluated = *record::from_json<record::Evaluated>(event.payload);
    if (first.empty())
      first = evaluated.evaluation.sessions;
    else
      evaluated.evaluation.sessions = first;
    event.payload = record::to_json(evaluated);
  }
  std::int64_t sessions = 0, without = 0;
  auto found = implausible_lines(events, sessions, without);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].second.find("again"), std::string::npos) << found[0].second;
  EXPECT_GT(sessions, 20);
  EXPECT_EQ(without, 0);

  events = honest_events;
  for (record::Event& event : events) {
    if (event.kind != record::EventKind::kEvaluated) continue;
    auto evaluated = *record::from_json<record::Evaluated>(event.payload);
    for (record::Session& session : evaluated.evaluation.sessions) session.guards["wall"] = 9;
    event.payload = record::to_json(evaluated);
  }
  found = implausible_lines(events, sessions, without);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].second.find("lie between it and the line before"), std::string::npos) << found[0].second;

  events = honest_events;
  for (record::Event& event : events) {
    if (event.kind != record::EventKind::kEvaluated) continue;
    auto evaluated = *record::from_json<record::Evaluated>(event.payload);
    for (record::Session& session : evaluated.evaluation.sessions) session.guards.erase("began");
    event.payload = record::to_json(evaluated);
  }
  EXPECT_FALSE(implausible_lines(events, sessions, without).empty());  // the baseline is stamped
  events[3].active = -1;
  EXPECT_EQ(implausible_lines(events, sessions, without)[0].second, "is older than the line before it");
}

}  // namespace
}  // namespace ridge::campaign::test
