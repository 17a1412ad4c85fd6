// A slim record proves as much as the whole folder, and what was taken away comes back bit for bit.
#include "campaign/slim.h"

#include "base/hash.h"
#include "campaign/verify.h"
#include "places.h"
#include "report/report.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

FileMap files_of(const fs::path& directory) {
  FileMap files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    const std::string path = entry.path().lexically_relative(directory).string();
    const bool lock = entry.path().filename().string().ends_with("lock");  // emptied, never removed
    if (entry.is_regular_file() && !lock && !path.starts_with("src/")) files[path] = *read_file(entry.path());
  }
  return files;
}

class SlimTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(world.run());
    ASSERT_TRUE(report::write(world.path(), *report::load(world.path())));
  }
  void edit(const std::string& path, const std::string& more = "more\n") {
    const Result<std::string> text = read_file(world.path() / path);
    ASSERT_TRUE(write_file_durably(world.path() / path, (text ? *text : std::string()) + more));
  }
  // The one finding of verify, as "path: detail"; empty: none.
  [[nodiscard]] std::string finding() const {
    const Result<VerifyReport> found = verify_campaign(world.path());
    if (!found) return found.error().text();
    EXPECT_LE(found->findings.size(), 1u) << found->text();
    EXPECT_EQ(found->ok(), found->findings.empty());
    return found->findings.empty() ? std::string() : found->findings[0].path + ": " + found->findings[0].detail;
  }
  World world{one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")})};
};

TEST_F(SlimTest, WhatIsTakenAwayComesBackBitForBit) {
  const FileMap whole = files_of(world.path());
  const std::int64_t files = verify_campaign(world.path())->files;
  const Result<SlimReport> slim = slim_campaign(world.path());
  ASSERT_TRUE(slim) << slim.error().text();
  EXPECT_TRUE(slim->kept.empty());
  std::vector<std::string> left;
  for (const auto& [path, content] : files_of(world.path())) {
    EXPECT_EQ(whole.at(path), content) << path;
    left.push_back(path);
  }
  EXPECT_EQ(left,
            (std::vector<std::string>{"journal.jsonl", "manifest.yaml", "report/REPORT.html", "report/REPORT.md"}));
  const Result<VerifyReport> verified = verify_campaign(world.path());
  ASSERT_TRUE(verified && verified->ok()) << verified->text();
  EXPECT_EQ(verified->files, files);
  EXPECT_GT(verified->rendered, 15);
  EXPECT_EQ(verified->snapshots, 2);
  EXPECT_TRUE(replay_campaign(world.path())->ok());
  EXPECT_EQ(slim_campaign(world.path())->files, 0);
  const Result<SlimReport> back = restore_campaign(world.path());
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->files, slim->files);
  EXPECT_EQ(back->bytes, slim->bytes);
  EXPECT_EQ(files_of(world.path()), whole);
  EXPECT_EQ(verify_campaign(world.path())->rendered, 0);
}

TEST_F(SlimTest, NoEmptyLockIsLeft) {
  // As an earlier version left it.
  ASSERT_TRUE(write_file_durably(world.path() / "memory/.lock", ""));
  ASSERT_TRUE(slim_campaign(world.path()));
  EXPECT_FALSE(fs::exists(world.path() / "memory"));
  ASSERT_TRUE(restore_campaign(world.path()));
  EXPECT_FALSE(fs::exists(world.path() / "memory/.lock"));
}

TEST_F(SlimTest, WhatIsThereAndDiffersIsFound) {
  ASSERT_TRUE(slim_campaign(world.path()));
  ASSERT_EQ(finding(), "");
  const std::string object = sha256(world.state().incumbent.candidate.sources[0].text);
  for (const std::string& path :
       {std::string("report/REPORT.html"), std::string("report/REPORT.md"), std::string("manifest.yaml"),
        std::string("rounds/round-2/summary.md"), std::string("memory/v1.json"), "objects/" + object}) {
    const Result<std::string> before = read_file(world.path() / path);
    edit(path);
    EXPECT_TRUE(finding().starts_with(path)) << path << " edited, found: " << finding();
    EXPECT_FALSE(slim_campaign(world.path())) << path;
    EXPECT_FALSE(restore_campaign(world.path())) << path;
    if (before)
      ASSERT_TRUE(write_file_durably(world.path() / path, *before));
    else
      fs::remove(world.path() / path);
    EXPECT_EQ(finding(), "");
  }
}

// The journal says what was rendered when the campaign ended; another program may render it otherwise.
TEST_F(SlimTest, AMissingFileThatTheJournalHasOtherwiseIsAnError) {
  ASSERT_TRUE(slim_campaign(world.path()));
  const fs::path path = world.path() / "journal.jsonl";
  std::string text, previous(64, '0');
  std::vector<record::Event> events = record::read_journal(path)->events;
  for (record::Event& event : events) {
    if (event.kind == record::EventKind::kReported) {
      auto reported = *record::from_json<record::Reported>(event.payload);
      reported.files.at("logs/cost.md") = std::string(64, 'e');
      event.payload = record::to_json(reported);
    }
    event.previous = previous;
    previous = event.hash = record::event_hash(event);
    text += record::to_line(event) + "\n";
  }
  ASSERT_TRUE(write_file_durably(path, text));
  // The report names the head of the journal, and is of another one now.
  fs::remove_all(world.path() / "report");
  EXPECT_TRUE(finding().starts_with("logs/cost.md: the journal says that it was eeeeeeeeeeee")) << finding();
}

TEST_F(SlimTest, AMaskedMemoryIsLeftAsItIs) {
  const knowledge::Memory memory = *knowledge::Memory::open(world.path());
  ASSERT_TRUE(memory.set_masked("v2", true));
  EXPECT_EQ(slim_campaign(world.path())->kept, std::vector<std::string>{"memory/v2.json"});
  EXPECT_EQ(finding(), "");
  ASSERT_TRUE(restore_campaign(world.path()));
  EXPECT_TRUE(memory.read("v2", true)->masked);
}

TEST(Slim, ACampaignThatHasNotEndedIsLeftAlone) {
  record::CampaignSpec spec = make_spec();
  spec.max_iterations = 1;
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")}),
              spec);
  ASSERT_TRUE(world.run());
  ASSERT_TRUE(extend_budget(world.path(), {0, 2}, world.clock));
  const FileMap before = files_of(world.path());
  const Result<SlimReport> refused = slim_campaign(world.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(files_of(world.path()), before);
}

// The campaigns that the library's kernels come from are kept slim in the repository, and prove what they did whole.
TEST(Slim, TheRecordedCampaignsVerifyReplayAndComeBack) {
  for (const char* name : {"gemm_cuda_nvidia-h200_20261121", "gemm_fp8_cuda_nvidia-h200_20261121"}) {
    const Result<TempDir> folder = TempDir::create("ridge-slim");
    ASSERT_TRUE(folder);
    const fs::path copy = folder->path();
    for (const char* file : {"journal.jsonl", "manifest.yaml", "report/REPORT.html", "report/REPORT.md"}) {
      const Result<std::string> text = read_file(source_dir() / "campaigns" / name / file);
      ASSERT_TRUE(text) << text.error().text();
      ASSERT_TRUE(write_file_durably(copy / file, *text));
    }
    const Result<VerifyReport> verified = verify_campaign(copy);
    ASSERT_TRUE(verified && verified->ok()) << (verified ? verified->text() : verified.error().text());
    EXPECT_GT(verified->rendered, 40);
    EXPECT_TRUE(replay_campaign(copy)->ok()) << name;
    EXPECT_GT(restore_campaign(copy)->files, 50);
    EXPECT_EQ(verify_campaign(copy)->rendered, 0);
    EXPECT_GT(slim_campaign(copy)->files, 50);
  }
}

}  // namespace
}  // namespace ridge::campaign::test
