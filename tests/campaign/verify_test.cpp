#include "campaign/verify.h"

#include <algorithm>
#include <fstream>

#include "base/hash.h"
#include "campaign/render.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

ScriptedProposer::Answer answers() {
  return one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")});
}

void replace_in(const std::filesystem::path& path, const std::string& from, const std::string& to) {
  std::string text = *read_file(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << path << " holds no " << from;
  ASSERT_TRUE(write_file_durably(path, text.replace(at, from.size(), to)));
}

// Rewrites the journal with a valid chain, as a forger who knows the format would.
void rewrite(const std::filesystem::path& path, const std::function<void(record::Event&)>& change) {
  std::vector<record::Event> events = record::read_journal(path)->events;
  std::string text, previous(64, '0');
  for (record::Event& event : events) {
    change(event);
    event.previous = previous;
    event.hash = record::event_hash(event);
    previous = event.hash;
    text += record::to_line(event) + "\n";
  }
  ASSERT_TRUE(write_file_durably(path, text));
}

class VerifyTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(world.run()); }
  World world{answers()};
};

TEST_F(VerifyTest, FindsAnyChangedFile) {
  const VerifyReport before = *verify_campaign(world.path());
  ASSERT_TRUE(before.ok());
  ASSERT_GT(before.files, 12);
  for (const char* file :
       {"logs/performance_trend.md", "logs/optimize.md", "logs/cost.md", "manifest.yaml", "rounds/round-2/summary.md",
        "rounds/round-2/artifacts/benchmark.csv", "rounds/round-3/kernel_snapshot/candidate.json",
        "verified_ineffective.jsonl", "memory/v1.json", "manifest.confirmed"}) {
    const std::string text = *read_file(world.path() / file);
    ASSERT_TRUE(write_file_durably(world.path() / file, text + "more\n"));
    const VerifyReport report = *verify_campaign(world.path());
    EXPECT_FALSE(report.ok()) << file;
    ASSERT_EQ(report.findings.size(), 1u) << report.text();
    EXPECT_EQ(report.findings[0].path, file);
    EXPECT_EQ(report.findings[0].kind, FileFinding::Kind::kForged);
    ASSERT_TRUE(write_file_durably(world.path() / file, text));
  }
}

TEST_F(VerifyTest, NamesTheChangedLine) {
  replace_in(world.path() / "logs/performance_trend.md", "ROLLBACK", "ACCEPTED");
  const VerifyReport report = *verify_campaign(world.path());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_NE(report.findings[0].detail.find("line 5"), std::string::npos) << report.findings[0].detail;
}

// What is missing is lost only if the journal does not give it (slim_test.cpp).
TEST_F(VerifyTest, AFileThatIsMissingIsRenderedAndCounted) {
  std::filesystem::remove(world.path() / "rounds/round-2/summary.md");
  std::filesystem::remove(world.path() / "memory/v1.json");
  const VerifyReport before = *verify_campaign(world.path());
  EXPECT_TRUE(before.ok()) << before.text();
  EXPECT_EQ(before.rendered, 2 + 3);  // no report was written
}

TEST_F(VerifyTest, FindsAChangedSnapshot) {
  const std::string digest = world.state().rounds[0].committed->snapshot;
  replace_in(world.path() / "objects" / digest, "kernel.cpp", "karnel.cpp");
  const VerifyReport report = *verify_campaign(world.path());
  ASSERT_EQ(report.findings.size(), 1u) << report.text();
  EXPECT_EQ(report.findings[0].kind, FileFinding::Kind::kSnapshot);
}

TEST_F(VerifyTest, AnEditedJournalLineIsRefusedWithItsPlace) {
  const std::filesystem::path journal = world.path() / "journal.jsonl";
  std::string text = *read_file(journal);
  std::size_t line = 0;
  for (int number = 1; number < 7; ++number) line = text.find('\n', line) + 1;
  text[text.find(':', line) - 2] ^= 1;  // a letter of its first key
  ASSERT_TRUE(write_file_durably(journal, text));
  const Result<VerifyReport> report = verify_campaign(world.path());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(report.error().message.find("line 7 (byte "), std::string::npos) << report.error().message;
  EXPECT_FALSE(world.open());
}

// A forger who rehashes the whole chain changes the last hash, and replay finds decisions that the samples do not give.
TEST_F(VerifyTest, ReplayFindsADecisionThatItsSamplesDoNotGive) {
  ASSERT_TRUE(replay_campaign(world.path())->ok());
  const std::string last = world.state().last_hash;
  rewrite(world.path() / "journal.jsonl", [](record::Event& event) {
    if (event.kind != record::EventKind::kDecided) return;
    auto decision = *record::from_json<record::Decision>(event.payload);
    if (!decision.effects.empty()) decision.effects[0].ratio *= 2;
    event.payload = record::to_json(decision);
  });
  EXPECT_NE(world.state().last_hash, last);
  const ReplayReport report = *replay_campaign(world.path());
  EXPECT_EQ(report.decisions, 2);
  ASSERT_EQ(report.differences.size(), 1u);
  EXPECT_NE(report.differences[0].find("round 2"), std::string::npos);
  EXPECT_FALSE(verify_campaign(world.path())->ok());
}

TEST_F(VerifyTest, ReplayFindsAnAcceptanceOfASlowerKernel) {
  rewrite(world.path() / "journal.jsonl", [](record::Event& event) {
    if (event.kind != record::EventKind::kDecided) return;
    auto decision = *record::from_json<record::Decision>(event.payload);
    decision.accepted = decision.round == 3 ? false : decision.accepted;
    decision.reason = decision.round == 3 ? "not needed" : decision.reason;
    event.payload = record::to_json(decision);
  });
  EXPECT_EQ(replay_campaign(world.path())->differences.size(), 1u);
}

TEST_F(VerifyTest, AnImpossibleStoryWithAValidChainIsRefused) {
  rewrite(world.path() / "journal.jsonl", [](record::Event& event) {
    if (event.kind == record::EventKind::kCommitted) event.kind = record::EventKind::kRolledBack;
  });
  EXPECT_FALSE(load_campaign(world.path()));
}

TEST_F(VerifyTest, TheSameJournalRendersTheSameBytes) {
  const State state = world.state();
  EXPECT_EQ(render_campaign(state), render_campaign(world.state()));
  for (const auto& [path, content] : render_campaign(state)) {
    EXPECT_EQ(state.reported->files.at(path), sha256(content)) << path;
  }
}

TEST_F(VerifyTest, BenchmarkTablesHaveTheFrozenHeaderAndCrLf) {
  const std::string csv = *read_file(world.path() / "rounds/round-2/artifacts/benchmark.csv");
  EXPECT_TRUE(csv.starts_with("label,B,M,N,K,Check,Forward TFLOPS,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\r'), 4);
  EXPECT_NE(csv.find("m=64 n=64 k=64,1,64,64,64,PASS,"), std::string::npos) << csv;
}

TEST_F(VerifyTest, LogsGrowByAppendingOnly) {
  const std::vector<record::Event> events = record::read_journal(world.path() / "journal.jsonl")->events;
  State state;
  FileMap before;
  for (const record::Event& event : events) {
    ASSERT_TRUE(apply(state, event));
    const FileMap now = render_campaign(state);
    for (const auto& [path, content] : before) {
      if (!is_append_only(path)) continue;
      EXPECT_TRUE(now.at(path).starts_with(content)) << path << " at line " << event.sequence + 1;
    }
    before = now;
  }
}

TEST_F(VerifyTest, TheSectionsPeoplesToolsReadAreThere) {
  const std::string log = *read_file(world.path() / "logs/optimize.md");
  std::size_t at = 0;
  for (const char* heading :
       {"# gemm cpu Optimization Log", "## Basic Information", "## Baseline", "## Optimization History",
        "### round-2 — ", "## Current Best", "## Directions to Try", "## Verified Ineffective Directions",
        "## Final Report", "### Termination Check", "### Real-training applicability audit"}) {
    at = log.find(heading, at);
    ASSERT_NE(at, std::string::npos) << heading;
  }
  const std::string summary = *read_file(world.path() / "rounds/round-3/summary.md");
  for (const char* heading :
       {"## Hypothesis", "## Single change", "## Results", "### Validation", "### Aggregate", "## Decision",
        "## Attribution", "## Next direction", "## Rollback Analysis", "## Real-training transfer check"}) {
    EXPECT_NE(summary.find(heading), std::string::npos) << heading;
  }
  EXPECT_NE(read_file(world.path() / "logs/performance_trend.md")
                ->find("| Combined Step TFLOPS | vs Baseline | Key Finding |"),
            std::string::npos);
}

TEST(Verify, AHandEditedLogIsKeptAsideWhenTheCampaignGoesOn) {
  record::CampaignSpec spec = make_spec();
  spec.max_iterations = 1;
  World world(answers(), spec);
  ASSERT_TRUE(world.run());
  replace_in(world.path() / "logs/optimize.md", "round-2", "my note");
  ASSERT_TRUE(extend_budget(world.path(), {0, 2}, world.clock));
  world.executor.on(record::WorkerTask::kEvaluate,
                    [](const record::WorkerRequest& request) { return evaluate_on(request, "again"); });
  ASSERT_TRUE(world.run());
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
  EXPECT_NE(read_file(world.path() / "logs/optimize.md.edited")->find("my note"), std::string::npos);
}

}  // namespace
}  // namespace ridge::campaign::test
