#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/process.h"
#include "execute/git.h"

namespace ridge::execute {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The real program and the fake must behave alike in everything a campaign relies on.
class GitTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    git_ = GetParam() ? make_git(root()) : make_fake_git(root());
    ASSERT_TRUE(make_directories(root()).ok());
    ASSERT_TRUE(git_->init().ok());
  }
  std::filesystem::path root() { return directory_->path() / "repository"; }
  std::string commit_file(Git& git, const std::string& path, const std::string& text) {
    EXPECT_TRUE(write_file_durably(git.directory() / path, text).ok());
    const auto id = git.commit("Add " + path, {path});
    EXPECT_TRUE(id.ok()) << id.error().text();
    return id.ok() ? *id : std::string();
  }
  Result<TempDir> directory_ = TempDir::create("ridge-test");
  std::unique_ptr<Git> git_;
};

TEST_P(GitTest, HasNoHeadBeforeTheFirstCommit) {
  ASSERT_FALSE(git_->head().ok());
  EXPECT_EQ(git_->head().error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*git_->branch(), "main");
}

TEST_P(GitTest, CommitsOnlyWhatIsNamed) {
  ASSERT_TRUE(write_file_durably(root() / "other.txt", "x").ok());
  const std::string first = commit_file(*git_, "src/a b.txt", "one");
  EXPECT_EQ(*git_->head(), first);
  EXPECT_THAT(*git_->changes(), ElementsAre("other.txt"));
}

TEST_P(GitTest, RefusesAnEmptyCommit) {
  commit_file(*git_, "a", "one");
  EXPECT_FALSE(git_->commit("again", {"a"}).ok());
}

TEST_P(GitTest, RecordsARemoval) {
  commit_file(*git_, "a", "one");
  commit_file(*git_, "b", "two");
  std::filesystem::remove(root() / "b");
  EXPECT_THAT(*git_->changes(), ElementsAre("b"));
  ASSERT_TRUE(git_->commit("Remove b", {"b"}).ok());
  EXPECT_THAT(*git_->changes(), IsEmpty());
}

// A name with a star is that file alone.
TEST_P(GitTest, TakesNamesLiterally) {
  ASSERT_TRUE(write_file_durably(root() / "ab.txt", "x").ok());
  commit_file(*git_, "a*.txt", "one");
  EXPECT_THAT(*git_->changes(), ElementsAre("ab.txt"));
}

TEST_P(GitTest, ExportsAFolderOfACommit) {
  commit_file(*git_, "sub/a", "one");
  const std::string then = commit_file(*git_, "b", "two");
  commit_file(*git_, "sub/a", "three");
  ASSERT_TRUE(write_file_durably(root() / "sub/a", "four").ok());
  ASSERT_TRUE(git_->export_tree(then, "sub", directory_->path() / "sub").ok());
  EXPECT_EQ(*read_file(directory_->path() / "sub/a"), "one");
  EXPECT_FALSE(std::filesystem::exists(directory_->path() / "sub/b"));
  ASSERT_TRUE(git_->export_tree(then, "", directory_->path() / "all").ok());
  EXPECT_EQ(*read_file(directory_->path() / "all/b"), "two");
  EXPECT_THAT(*git_->changes(), ElementsAre("sub/a"));
  EXPECT_FALSE(git_->export_tree(std::string(40, 'a'), "", directory_->path() / "none").ok());
}

TEST_P(GitTest, AMergeThatWaitsIsSeen) {
  commit_file(*git_, "a", "one");
  EXPECT_FALSE(git_->unfinished());
  ASSERT_TRUE(write_file_durably(root() / ".git/MERGE_HEAD", "x\n").ok());
  EXPECT_TRUE(git_->unfinished());
}

TEST_P(GitTest, GivesEqualTreesToEqualContent) {
  const std::string one = commit_file(*git_, "a", "one");
  const std::string two = commit_file(*git_, "a", "two");
  const std::string three = commit_file(*git_, "a", "one");
  EXPECT_EQ(*git_->tree(one), *git_->tree(three));
  EXPECT_NE(*git_->tree(one), *git_->tree(two));
  EXPECT_EQ(*git_->tree("HEAD"), *git_->tree(three));
}

TEST_P(GitTest, WorksInAWorktreeWithoutTouchingTheMainOne) {
  const std::string base = commit_file(*git_, "a", "one");
  const std::filesystem::path path = directory_->path() / "tree";
  ASSERT_TRUE(git_->add_worktree(path, "optimize/x", "HEAD").ok());
  EXPECT_FALSE(git_->add_worktree(directory_->path() / "tree2", "optimize/x", "HEAD").ok());
  const std::unique_ptr<Git> tree = git_->at(path);
  EXPECT_EQ(*tree->branch(), "optimize/x");
  EXPECT_EQ(*tree->head(), base);
  EXPECT_THAT(*tree->changes(), IsEmpty());
  EXPECT_EQ(*read_file(path / "a"), "one");
  commit_file(*tree, "b", "two");
  EXPECT_NE(*tree->head(), base);
  EXPECT_EQ(*git_->head(), base);
  EXPECT_FALSE(std::filesystem::exists(root() / "b"));
  ASSERT_TRUE(git_->remove_worktree(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(git_->remove_worktree(path).ok());
}

// What a user has staged is not part of a commit, and is staged after it.
TEST(CommandGit, LeavesTheIndexOfTheUserAlone) {
  const Result<TempDir> directory = TempDir::create("ridge-test");
  const std::filesystem::path root = directory->path();
  const std::unique_ptr<Git> git = make_git(root);
  ASSERT_TRUE(git->init().ok());
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-C", root.string()});
    const auto ended = run_process({.argv = words});
    EXPECT_TRUE(ended && ended->succeeded());
    return ended ? ended->output : std::string();
  };
  for (const char* file : {"mine", "gone", "ours"}) ASSERT_TRUE(write_file_durably(root / file, "one\n").ok());
  ASSERT_TRUE(git->commit("start", {"mine", "gone", "ours"}).ok());
  ASSERT_TRUE(write_file_durably(root / "mine", "staged\n").ok());
  ASSERT_TRUE(write_file_durably(root / "new", "staged\n").ok());
  run({"add", "mine", "new"});
  run({"rm", "--quiet", "gone"});
  ASSERT_TRUE(write_file_durably(root / "mine", "and not staged\n").ok());
  ASSERT_TRUE(write_file_durably(root / "ours", "two\n").ok());
  ASSERT_TRUE(write_file_durably(root / "memory/v1.json", "{}\n").ok());
  ASSERT_TRUE(git->commit("ours", {"ours", "memory/v1.json"}).ok());
  EXPECT_EQ(run({"show", "--name-only", "--format=", "HEAD"}), "memory/v1.json\nours\n");
  EXPECT_EQ(run({"diff", "--cached", "--name-status"}), "D\tgone\nM\tmine\nA\tnew\n");
  EXPECT_EQ(run({"show", ":mine"}), "staged\n");
  EXPECT_EQ(*read_file(root / "mine"), "and not staged\n");
}

// A repository with two commits, and git(1) on it as its user types it.
class UsersRepository : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(git_->init().ok());
    for (const char* text : {"one\n", "two\n"}) {
      ASSERT_TRUE(write_file_durably(root() / "a", text).ok());
      ASSERT_TRUE(git_->commit(text, {"a"}).ok());
    }
  }
  [[nodiscard]] std::filesystem::path root() const { return directory_->path() / "repository"; }
  // Whether it succeeded.
  bool typed(std::vector<std::string> words, const std::string& input = {}) {
    words.insert(words.begin(), {"git", "-C", root().string(), "-c", "user.name=x", "-c", "user.email=x@localhost"});
    const auto ended = run_process({.argv = words,
                                    .environment = {{"GIT_SEQUENCE_EDITOR", "sed -i 1ibreak"}, {"GIT_EDITOR", "true"}},
                                    .standard_input = input});
    return ended && ended->succeeded();
  }

  Result<TempDir> directory_ = TempDir::create("ridge-test");
  std::unique_ptr<Git> git_ = make_git(directory_->path() / "repository");
};

// Their abort goes back to where HEAD was, and drops what was committed meanwhile.
TEST_F(UsersRepository, OperationsThatWaitForTheirEndAreSeen) {
  EXPECT_FALSE(git_->unfinished());
  ASSERT_TRUE(typed({"rebase", "--interactive", "HEAD~1"}));
  EXPECT_TRUE(git_->unfinished()) << "a rebase that stopped at break";
  ASSERT_TRUE(typed({"rebase", "--abort"}));
  EXPECT_FALSE(git_->unfinished());
  const std::string patch =
      "From: x <x@localhost>\nSubject: three\n\n---\n a | 2 +-\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n"
      "@@ -1 +1 @@\n-other\n+three\n--\n2.39\n";
  ASSERT_FALSE(typed({"am"}, patch));
  EXPECT_TRUE(git_->unfinished()) << "git am of a patch that does not apply";
  ASSERT_TRUE(typed({"am", "--abort"}));
  ASSERT_TRUE(typed({"bisect", "start", "HEAD", "HEAD~1"}));
  EXPECT_TRUE(git_->unfinished()) << "a bisection";
  ASSERT_TRUE(typed({"bisect", "reset"}));
  EXPECT_FALSE(git_->unfinished());
}

TEST_F(UsersRepository, NoHookRuns) {
  const std::filesystem::path ran = directory_->path() / "ran";
  for (const char* hook : {"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout",
                           "post-index-change", "reference-transaction"}) {
    const std::filesystem::path path = root() / ".git/hooks" / hook;
    ASSERT_TRUE(write_file_durably(path, "#!/bin/sh\necho " + std::string(hook) + " >> " + ran.string() + "\n").ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  ASSERT_TRUE(write_file_durably(root() / "a", "three\n").ok());
  ASSERT_TRUE(git_->commit("three", {"a"}).ok());
  ASSERT_TRUE(git_->add_worktree(directory_->path() / "tree", "optimize/x", "HEAD").ok());
  EXPECT_FALSE(std::filesystem::exists(ran)) << *read_file(ran);
  ASSERT_TRUE(typed({"commit", "--allow-empty", "--quiet", "--message", "by hand"}));
  EXPECT_TRUE(std::filesystem::exists(ran)) << "the hooks are what a user's commit runs";
}

// As under a hook of another repository, whose git hands its own on to what it starts.
TEST_F(UsersRepository, ARepositoryThatTheEnvironmentNamesIsLeftAlone) {
  const std::filesystem::path other = directory_->path() / "other";
  ASSERT_TRUE(make_git(other)->init().ok());
  const std::map<std::string, std::string> variables = {{"GIT_DIR", (other / ".git").string()},
                                                        {"GIT_WORK_TREE", other.string()},
                                                        {"GIT_INDEX_FILE", (other / ".git/index").string()},
                                                        {"GIT_OBJECT_DIRECTORY", (other / ".git/objects").string()},
                                                        {"GIT_ICASE_PATHSPECS", "1"}};
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("GIT_AUTHOR_NAME", "A. Author", 1);
  EXPECT_TRUE(write_file_durably(root() / "a", "three\n").ok());
  const Result<std::string> commit = git_->commit("three", {"a"});
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  ::unsetenv("GIT_AUTHOR_NAME");
  ASSERT_TRUE(commit.ok()) << commit.error().text();
  EXPECT_EQ(*git_->head(), *commit);
  EXPECT_THAT(*git_->changes(), IsEmpty());
  EXPECT_FALSE(make_git(other)->head().ok());
  EXPECT_TRUE(typed({"rev-parse", "--verify", "HEAD~2"}));
  const auto author = run_process({.argv = {"git", "-C", root().string(), "log", "-1", "--format=%an"}});
  EXPECT_EQ(author->output, "A. Author\n") << "who commits is the user's to say";
}

INSTANTIATE_TEST_SUITE_P(RealAndFake, GitTest, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Program" : "Fake"; });

}  // namespace
}  // namespace ridge::execute
