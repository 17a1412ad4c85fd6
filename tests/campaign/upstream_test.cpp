#include "campaign/upstream.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "campaign/manifest.h"
#include "record/execution.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kToml = R"([project]
op = "matmul"
language = "python"
kernel = ["src/kernel.py"]
leave_out = ["scratch"]
extract = ["src", "tests"]
[commands]
test = ["python3", "tests/test.py"]
test_summary = 'passed=(\d+) failed=(\d+)'
benchmark = ["python3", "tests/bench.py", "{csv}"]
fresh = ["--fresh"]
[benchmark]
schema = "gemm"
peak = 1
shapes = ["small"]
)";

// A project in `fast/` of a repository.
class UpstreamTest : public testing::Test {
 protected:
  void SetUp() override {
    write("fast/ridge-project.toml", kToml);
    write("fast/src/kernel.py", "one\n");
    write("fast/tests/test.py", "test\n");
    write("fast/docs/more.md", "more\n");
    write("other.txt", "other\n");
    ASSERT_TRUE(git->init());
    commit = git->commit("start", {"."}).value();
  }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((top() / path).parent_path());
    std::ofstream(top() / path) << text;
  }
  [[nodiscard]] fs::path top() const { return directory.path() / "repository"; }
  [[nodiscard]] fs::path into() const { return directory.path() / "campaign" / kProjectFolder; }
  [[nodiscard]] Result<Upstream> found() const { return find_upstream(project::read_project(top() / "fast").value()); }

  TempDir directory = TempDir::create("ridge-upstream-test").value();
  std::unique_ptr<execute::Git> git = execute::make_git(directory.path() / "repository");
  std::string commit;
};

// A root with a slash at its end once let every uncommitted change pass.
TEST_F(UpstreamTest, AProjectThatIsNamedByADotIsTheFolder) {
  fs::create_directories(top() / "other");
  for (const char* name : {"fast/.", "fast/", "other/../fast/./"}) {
    const project::Project project = project::read_project(top() / name).value();
    EXPECT_EQ(project.root, top() / "fast") << name;
    EXPECT_EQ(find_upstream(project).value().folder, "fast") << name;
  }
  write("fast/src/kernel.py", "not committed\n");
  const Result<Upstream> refused = find_upstream(project::read_project(top() / "fast/.").value());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("src/kernel.py"), std::string::npos) << refused.error().text();
}

TEST_F(UpstreamTest, TheFilesAreThoseOfTheCommitWhateverTheCheckoutHolds) {
  Upstream upstream = found().value();
  EXPECT_EQ(upstream.repository, top());
  EXPECT_EQ(upstream.folder, "fast");
  EXPECT_EQ(upstream.commit, commit);
  EXPECT_EQ(text_of(upstream), "src, tests of " + (top() / "fast").string() + " at " + commit.substr(0, 12));
  write("fast/src/kernel.py", "edited meanwhile\n");
  const Result<project::Project> project = extract_first(upstream, into());
  ASSERT_TRUE(project) << project.error().text();
  EXPECT_EQ(project->root, into());
  EXPECT_EQ(*read_file(into() / "src/kernel.py"), "one\n");
  EXPECT_TRUE(fs::exists(into() / "docs/more.md")) << "the whole folder is there, for the gate of the whole project";
  EXPECT_FALSE(fs::exists(into() / "other.txt"));
  EXPECT_EQ(upstream.digest.size(), 64u);
  EXPECT_TRUE(extract(upstream, into())) << "once more is nothing to do";
  EXPECT_EQ(*git->changes(), std::vector<std::string>{"fast/src/kernel.py"}) << "neither index nor checkout changed";
  const project::Project part = project::extracted_part(*project);
  EXPECT_EQ(part.only, (std::vector<std::string>{"src", "tests", "src/kernel.py", "ridge-project.toml"}));
}

TEST_F(UpstreamTest, AChangedExtractionIsRefusedAndARemovedOneIsMadeAgain) {
  Upstream upstream = found().value();
  ASSERT_TRUE(extract_first(upstream, into()));
  std::ofstream(into() / "tests/test.py") << "weaker\n";
  const auto changed = extract(upstream, into());
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("is not what was extracted at commit " + commit.substr(0, 12)),
            std::string::npos);
  EXPECT_NE(changed.error().hint.find("remove"), std::string::npos);
  fs::remove_all(into());
  ASSERT_TRUE(extract(upstream, into()));
  EXPECT_EQ(*read_file(into() / "tests/test.py"), "test\n");
}

TEST_F(UpstreamTest, WhatIsNotCommittedIsNamedWithTheWayOut) {
  write("other.txt", "not of the project\n");
  write("fast/scratch/notes", "left out\n");
  write("fast/campaigns/one/journal.jsonl", "a campaign\n");
  EXPECT_TRUE(found()) << found().error().text();
  write("fast/src/kernel.py", "two\n");
  write("fast/src/new.py", "new\n");
  const auto dirty = found();
  ASSERT_FALSE(dirty);
  EXPECT_NE(dirty.error().message.find("not committed: src/kernel.py, src/new.py"), std::string::npos)
      << dirty.error().text();
  EXPECT_NE(dirty.error().hint.find("--mode repo"), std::string::npos);
}

TEST_F(UpstreamTest, AFolderThatTheCommitLacksIsNamed) {
  fs::remove_all(top() / "fast/tests");
  ASSERT_TRUE(git->commit("without tests", {"fast/tests/test.py"}));
  Upstream upstream = found().value();
  const auto lacking = extract_first(upstream, into());
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.error().message.find("has no tests, which project.extract names"), std::string::npos)
      << lacking.error().text();
}

TEST_F(UpstreamTest, WithoutARepositoryOrACommitItIsRefused) {
  fs::rename(top() / ".git", directory.path() / "hidden");
  const auto none = found();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().hint.find("git init"), std::string::npos) << none.error().text();
  ASSERT_TRUE(git->init());
  const auto empty = found();
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().hint.find("commit the project"), std::string::npos) << empty.error().text();
}

TEST_F(UpstreamTest, ACommitThatIsGoneIsRefused) {
  Upstream upstream = found().value();
  upstream.commit = std::string(40, 'a');
  const auto gone = extract_first(upstream, into());
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("has no commit aaaaaaaaaaaa"), std::string::npos) << gone.error().text();
}

TEST_F(UpstreamTest, TheManifestBindsIt) {
  Upstream upstream = found().value();
  ASSERT_TRUE(extract_first(upstream, into()));
  record::CampaignSpec spec = make_spec();
  EXPECT_FALSE(record::is_of_project(spec));
  EXPECT_FALSE(upstream_of(spec));
  spec.execution_mode = "repo";
  describe_upstream(spec, upstream);
  EXPECT_TRUE(record::is_of_project(spec));
  const record::CampaignSpec again = parse_manifest(render_manifest(spec)).value();
  EXPECT_EQ(again.execution_mode, "workspace");
  const std::optional<Upstream> read = upstream_of(again);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->repository, upstream.repository);
  EXPECT_EQ(read->folder, "fast");
  EXPECT_EQ(read->commit, commit);
  EXPECT_EQ(read->digest, upstream.digest);
  EXPECT_EQ(read->extracted, (std::vector<std::string>{"src", "tests"}));
  record::CampaignSpec both = again;
  both.execution_mode = "repo";
  EXPECT_FALSE(validate_spec(both));
}

// Without a digest any files in project/ would pass for those of the commit.
TEST_F(UpstreamTest, AManifestWithoutADigestIsRefused) {
  Upstream upstream = found().value();
  ASSERT_TRUE(extract_first(upstream, into()));
  record::CampaignSpec spec = make_spec();
  describe_upstream(spec, upstream);
  EXPECT_TRUE(validate_spec(spec)) << validate_spec(spec).error().text();
  const struct {
    const char *key, *value, *says;
  } rows[] = {{"upstream_digest", "''", "upstream_digest = \"\" is no SHA-256"},
              {"upstream_digest", "0123", "upstream_digest = \"0123\" is no SHA-256"},
              {"upstream_commit", "HEAD", "upstream_commit = \"HEAD\" is no full name of a commit"},
              {"upstream", "fast", "upstream = \"fast\" is no absolute path"}};
  for (const auto& row : rows) {
    record::CampaignSpec edited = spec;
    edited.extra[row.key] = row.value;
    const Status refused = validate_spec(edited);
    ASSERT_FALSE(refused) << row.says;
    EXPECT_NE(refused.error().message.find(row.says), std::string::npos) << refused.error().text();
  }
  std::ofstream(into() / "tests/test.py") << "weaker\n";
  upstream.digest.clear();
  const auto unchecked = extract(upstream, into());
  ASSERT_FALSE(unchecked) << "also of a journal that an earlier version wrote";
  EXPECT_NE(unchecked.error().message.find("is no SHA-256"), std::string::npos) << unchecked.error().text();
}

}  // namespace
}  // namespace ridge::campaign::test
