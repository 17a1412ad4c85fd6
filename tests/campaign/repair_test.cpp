#include "campaign/repair.h"

#include "base/signature.h"
#include "campaign/anchor.h"
#include "campaign/verify.h"
#include "forgery.h"

namespace ridge::campaign::test {
namespace {

class RepairTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(world.run()); }
  [[nodiscard]] std::filesystem::path journal() const { return world.path() / "journal.jsonl"; }
  // Changes one byte in the middle of a line, from 1.
  void damage(int line) const {
    std::string text = *read_file(journal());
    std::size_t start = 0;
    for (int number = 1; number < line; ++number) start = text.find('\n', start) + 1;
    text[start + (text.find('\n', start) - start) / 2] ^= 1;
    ASSERT_TRUE(write_file_durably(journal(), text));
  }
  // The line, from 1, of the n-th event of a kind.
  [[nodiscard]] int line_of(record::EventKind kind, int n = 1) const {
    for (const record::Event& event : record::read_journal(journal())->events) {
      if (event.kind == kind && --n == 0) return static_cast<int>(event.sequence) + 1;
    }
    return 0;
  }
  World world{one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(180)}, "SLOWER")})};
};

TEST_F(RepairTest, AnEditedLineStopsTheCampaignAndIsDroppedWithAllBehindIt) {
  const std::string outcome = outcome_of(world.state()), before = *read_file(journal());
  const int line = line_of(record::EventKind::kDecided, 2);
  damage(line);
  ASSERT_FALSE(world.open());
  EXPECT_NE(world.open().error().hint.find("campaign repair"), std::string::npos);
  const RepairPlan plan = *plan_repair(world.path());
  EXPECT_EQ(plan.good_lines, line - 1);
  EXPECT_TRUE(plan.needed());
  const Result<std::filesystem::path> folder = repair_campaign(world.path(), world.clock);
  ASSERT_TRUE(folder) << folder.error().text();
  EXPECT_TRUE(before.starts_with(read_file(journal())->substr(0, plan.good_bytes)));
  EXPECT_EQ(read_file(*folder / "journal.jsonl")->size(), plan.dropped_bytes);
  EXPECT_NE(read_file(journal())->find("repaired: "), std::string::npos);  // it stays in the record
  ASSERT_TRUE(world.run());
  EXPECT_EQ(outcome_of(world.state()), outcome);  // the round is decided again from the same samples
  const VerifyReport report = *verify_campaign(world.path());
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST_F(RepairTest, EveryLineButTheFirstCanBeTheBrokenOne) {
  const std::string text = *read_file(journal());
  const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  for (int line = 2; line <= lines; line += 3) {
    World fresh{one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(180)}, "SLOWER")})};
    ASSERT_TRUE(fresh.run());
    std::string bent = *read_file(fresh.path() / "journal.jsonl");
    std::size_t start = 0;
    for (int number = 1; number < line; ++number) start = bent.find('\n', start) + 1;
    bent[start + 20] ^= 1;
    ASSERT_TRUE(write_file_durably(fresh.path() / "journal.jsonl", bent));
    ASSERT_TRUE(repair_campaign(fresh.path(), fresh.clock)) << line;
    EXPECT_FALSE(plan_repair(fresh.path())->needed());
    const bool confirmed = fresh.state().confirmed || confirm_campaign(fresh.path(), "test", fresh.clock);
    ASSERT_TRUE(confirmed);
    const Result<RunResult> resumed = fresh.run();
    ASSERT_TRUE(resumed) << line << ": " << resumed.error().text();
    const VerifyReport report = *verify_campaign(fresh.path());
    EXPECT_TRUE(report.ok()) << line << "\n" << report.text();
  }
}

TEST_F(RepairTest, AnUnfinishedLineAndAnImpossibleStoryAreDroppedAsWell) {
  const std::string text = *read_file(journal());
  ASSERT_TRUE(write_file_durably(journal(), text.substr(0, text.size() - 5)));
  EXPECT_EQ(plan_repair(world.path())->problem, "is unfinished");
  EXPECT_EQ(plan_repair(world.path())->dropped_lines, 1);
  ASSERT_TRUE(write_file_durably(journal(), text));
  std::vector<record::Event> events = record::read_journal(journal())->events;
  const auto committed = static_cast<std::size_t>(line_of(record::EventKind::kCommitted, 2)) - 1;
  events[committed].kind = record::EventKind::kRolledBack;
  write_chain(journal(), events);
  EXPECT_EQ(plan_repair(world.path())->good_lines, static_cast<std::int64_t>(committed));
  ASSERT_TRUE(repair_campaign(world.path(), world.clock));
  ASSERT_TRUE(world.run());
}

TEST_F(RepairTest, AGoodJournalIsLeftAloneAndOneWithoutAGoodLineIsRefused) {
  const std::string text = *read_file(journal());
  EXPECT_FALSE(plan_repair(world.path())->needed());
  EXPECT_FALSE(repair_campaign(world.path(), world.clock));
  EXPECT_EQ(*read_file(journal()), text);
  damage(1);
  const Result<RepairPlan> plan = plan_repair(world.path());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
}

TEST(Repair, AnAnchoredCampaignGoesBackToItsLastSignedLine) {
  const TempDir keys = TempDir::create("ridge-keys").value();
  ASSERT_TRUE(SigningKey::generate().write_new(keys.path() / "key"));
  record::CampaignSpec spec = make_spec();
  ASSERT_TRUE(anchor_spec(spec, "/nowhere", keys.path() / "key", {}));
  World world(one_per_round({make_proposal({make_candidate(100, "#define SPEED 100\nint k;\n")})}), spec);
  world.engine_options.sign_key = keys.path() / "key";
  ASSERT_TRUE(world.run());
  bend_last_evaluation(world.path(), [](record::Evaluation& evaluation) {
    for (record::Session& session : evaluation.sessions) scale_candidate(session, 1.42);
  });
  ASSERT_FALSE(world.open());
  const RepairPlan plan = *plan_repair(world.path());
  EXPECT_EQ(plan.problem, "is not the line that was signed");
  ASSERT_TRUE(repair_campaign(world.path(), world.clock));
  ASSERT_TRUE(world.run());
  EXPECT_FALSE(world.state().rounds.at(0).decision->accepted);
  EXPECT_TRUE(check_signatures(world.path(), record::read_journal(world.path() / "journal.jsonl")->events,
                               *read_public_key(keys.path() / "key.pub"))
                  ->ok());
}

}  // namespace
}  // namespace ridge::campaign::test
