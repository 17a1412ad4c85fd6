#include "campaign/handback.h"

#include <fstream>

#include "campaign/upstream.h"
#include "campaign/verify.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

// A finished campaign of a project in `sub/` of a real repository.
class HandBackTest : public testing::Test {
 protected:
  static record::CampaignSpec spec() {
    record::CampaignSpec spec = make_spec();
    spec.execution_mode = "repo";
    return spec;
  }
  void SetUp() override {
    world.executor.on(record::WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
      record::WorkerResponse response = evaluate(request);
      response.evaluation->timing = "project-command";
      response.evaluation->build.counts = {{"fresh_over_reused", 1.1}, {"incumbent_fresh_over_reused", 1.0}};
      return response;
    });
    const Result<RunResult> done = world.run();
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(done->end, RunEnd::kDone) << done->reason;
    write("sub/kernel.cpp", "#define SPEED 100\nint kernel;\n");
    write("readme.txt", "mine\n");
    ASSERT_TRUE(git->init());
    start = git->commit("start", {"sub/kernel.cpp", "readme.txt"}).value();
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((top() / path).parent_path());
    std::ofstream(top() / path) << text;
  }
  [[nodiscard]] fs::path top() const { return world.base() / "users"; }
  Result<HandBack> give() { return hand_back(world.path(), world.state(), *git, "sub"); }

  World world{one_per_round({make_proposal({make_candidate(150, "#define SPEED 100\nint faster;\n")}),
                             make_proposal({make_candidate(120, "int slower;\n")}, "SLOWER"),
                             make_proposal({make_candidate(200, "#define SPEED 100\nint fastest;\n")}, "FASTER")}),
              spec()};
  std::unique_ptr<execute::Git> git = execute::make_git(world.base() / "users");
  std::string start;
};

TEST_F(HandBackTest, EveryAcceptedRoundIsOneCommitOnItsOwnBranch) {
  write("readme.txt", "changed and not committed\n");
  const Result<HandBack> back = give();
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->branch, "optimize/gemm_cpu_test_20260101");
  EXPECT_EQ(back->base, start);
  EXPECT_EQ(back->commits.size(), 2u);
  // The user's side is as it was.
  EXPECT_EQ(*git->head(), start);
  EXPECT_EQ(*git->branch(), "main");
  EXPECT_EQ(*read_file(top() / "readme.txt"), "changed and not committed\n");
  EXPECT_EQ(*read_file(top() / "sub/kernel.cpp"), "#define SPEED 100\nint kernel;\n");
  EXPECT_FALSE(fs::exists(world.path() / "handback"));
  ASSERT_TRUE(git->add_worktree(world.base() / "look", "look", back->branch));
  EXPECT_EQ(*read_file(world.base() / "look/sub/kernel.cpp"), "#define SPEED 200\nint fastest;\n");
  EXPECT_FALSE(fs::exists(world.base() / "look/sub/candidate.json"));
}

TEST_F(HandBackTest, ItIsRefusedWhenTheFilesAreNotWhatTheCampaignStartedFrom) {
  write("sub/kernel.cpp", "int mine;\n");
  EXPECT_NE(give().error().message.find("not committed"), std::string::npos);
  ASSERT_TRUE(git->commit("mine", {"sub/kernel.cpp"}));
  EXPECT_NE(give().error().message.find("not what the campaign started from"), std::string::npos);
}

TEST_F(HandBackTest, ItIsRefusedTwiceAndInTheMiddleOfAMerge) {
  ASSERT_TRUE(give());
  const Result<HandBack> again = give();
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().hint.find("earlier hand-back"), std::string::npos) << again.error().text();
  write(".git/MERGE_HEAD", start + "\n");
  EXPECT_NE(give().error().message.find("merge or rebase"), std::string::npos);
}

TEST_F(HandBackTest, ADetachedHeadAndASubmoduleAreNoObstacle) {
  write(".git/HEAD", start + "\n");
  write("other/.git", "gitdir: nowhere\n");
  EXPECT_FALSE(git->branch());
  const Result<HandBack> back = give();
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->commits.size(), 2u);
  fs::remove_all(top() / "other");
  write("sub/.git", "gitdir: nowhere\n");
  const Result<HandBack> inside = give();
  ASSERT_FALSE(inside);
}

// The campaign with its manifest as a campaign in workspace mode has it.
TEST_F(HandBackTest, AnExtractedProjectThatMovedOnIsHandedBackToItsCommit) {
  EXPECT_NE(hand_back(world.path(), world.state(), *git, "sub", true).error().message.find("--at-start"),
            std::string::npos);
  State state = world.state();
  describe_upstream(state.created->spec, {top(), "sub", start, std::string(64, '0'), {}});
  write("readme.txt", "outside of the project\n");
  const std::string outside = git->commit("outside", {"readme.txt"}).value();
  const Result<HandBack> at_head = hand_back(world.path(), state, *git, "sub");
  ASSERT_TRUE(at_head) << at_head.error().text();
  EXPECT_EQ(at_head->base, outside) << "the project's folder is the same";
  state.created->spec.git_branch = "kernels/second";
  write("sub/bench.py", "of the project\n");
  ASSERT_TRUE(git->commit("inside", {"sub/bench.py"}));
  const Result<HandBack> moved = hand_back(world.path(), state, *git, "sub");
  ASSERT_FALSE(moved);
  EXPECT_NE(moved.error().message.find("moved on: bench.py"), std::string::npos) << moved.error().text();
  EXPECT_NE(moved.error().hint.find("--at-start"), std::string::npos);
  write("sub/kernel.cpp", "being edited\n");
  const Result<HandBack> back = hand_back(world.path(), state, *git, "sub", true);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->base, start);
  EXPECT_EQ(back->commits.size(), 2u);
  EXPECT_EQ(*read_file(top() / "sub/kernel.cpp"), "being edited\n");
  ASSERT_TRUE(git->export_tree(back->commits.back(), "sub", world.base() / "look"));
  EXPECT_EQ(*read_file(world.base() / "look/kernel.cpp"), "#define SPEED 200\nint fastest;\n");
  EXPECT_FALSE(fs::exists(world.base() / "look/bench.py"));
  describe_upstream(state.created->spec, {top(), "sub", std::string(40, 'b'), std::string(64, '0'), {}});
  EXPECT_NE(hand_back(world.path(), state, *git, "sub", true).error().message.find("no longer has the commit"),
            std::string::npos);
}

// Whatever folder the caller took for the project's: the rounds are made from the commit, which has it in sub/.
TEST_F(HandBackTest, AnExtractedProjectIsWhereItsCommitHasIt) {
  State state = world.state();
  describe_upstream(state.created->spec, {top(), "sub", start, std::string(64, '0'), {}});
  const Result<HandBack> back = hand_back(world.path(), state, *git, "", true);
  ASSERT_TRUE(back) << back.error().text();
  ASSERT_TRUE(git->export_tree(back->commits.back(), "", world.base() / "look"));
  EXPECT_EQ(*read_file(world.base() / "look/sub/kernel.cpp"), "#define SPEED 200\nint fastest;\n");
  EXPECT_FALSE(fs::exists(world.base() / "look/kernel.cpp"));
  state.created->spec.git_branch = "kernels/second";
  const Result<HandBack> at_head = hand_back(world.path(), state, *git, "", false);
  EXPECT_TRUE(at_head) << at_head.error().text();
  state.created->spec.git_branch = "kernels/third";
  describe_upstream(state.created->spec, {top(), "other", start, std::string(64, '0'), {}});
  EXPECT_FALSE(hand_back(world.path(), state, *git, "sub", true));
  describe_upstream(state.created->spec, {top(), "", start, std::string(64, '0'), {}});
  const Result<HandBack> elsewhere = hand_back(world.path(), state, *git, "sub", true);
  ASSERT_FALSE(elsewhere);
  EXPECT_NE(elsewhere.error().message.find("kernel.cpp is not at " + start.substr(0, 12)), std::string::npos)
      << elsewhere.error().text();
}

TEST_F(HandBackTest, FindsTheRepositoryAbove) {
  EXPECT_EQ(*repository_above(top() / "sub"), top());
  EXPECT_EQ(*repository_above(top() / "sub/"), top());
  EXPECT_EQ(*repository_above((top() / "").string()), top());
  EXPECT_FALSE(repository_above("/proc/self"));
}

}  // namespace
}  // namespace ridge::campaign::test
