// Pull the plug everywhere, resume, and compare with the campaign that was left alone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign/verify.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

struct Killed {};

enum class Moment { kBeforeTheLine, kInTheLine, kAfterTheLine };

// Ends the process, as far as the engine can tell, at the n-th line of the journal.
class KillingSink final : public JournalSink {
 public:
  KillingSink(std::unique_ptr<JournalSink> file, int line, Moment moment)
      : file_(std::move(file)), line_(line), moment_(moment) {}
  Status append(std::size_t offset, std::string_view line) override {
    if (--line_ > 0) return file_->append(offset, line);
    if (moment_ == Moment::kInTheLine) (void)file_->append(offset, line.substr(0, line.size() / 2));
    if (moment_ == Moment::kAfterTheLine) (void)file_->append(offset, line);
    throw Killed{};
  }
  Status truncate(std::size_t size) override { return file_->truncate(size); }

 private:
  std::unique_ptr<JournalSink> file_;
  int line_;
  Moment moment_;
};

ScriptedProposer::Answer answers() {
  const auto story =
      one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(160), make_candidate(300)}),
                     make_proposal({make_candidate(kIsWrong)}, "WRONG")});
  return story;
}

std::string uninterrupted() {
  World world(answers());
  EXPECT_TRUE(world.run());
  return outcome_of(world.state());
}

// True when it was killed; false when it came to its end before.
bool run_until_killed(World& world, int line, Moment moment) {
  auto sink = std::make_unique<KillingSink>(open_journal_file(world.path() / "journal.jsonl").value(), line, moment);
  try {
    Result<std::unique_ptr<Engine>> engine = world.open(std::move(sink));
    EXPECT_TRUE(engine) << engine.error().text();
    EXPECT_TRUE((*engine)->run());
  } catch (const Killed&) {
    return true;
  }
  return false;
}

class KillMatrix : public testing::TestWithParam<Moment> {};

TEST_P(KillMatrix, AtEveryLineOfTheJournalLosesAndRepeatsNothing) {
  const std::string wanted = uninterrupted();
  int killed = 0;
  for (int line = 1;; ++line) {
    World world(answers());
    ASSERT_TRUE(world.create());
    if (!run_until_killed(world, line, GetParam())) break;
    ++killed;
    const Result<RunResult> resumed = world.run();
    ASSERT_TRUE(resumed) << "line " << line << ": " << resumed.error().text();
    EXPECT_EQ(resumed->end, RunEnd::kDone);
    EXPECT_EQ(outcome_of(world.state()), wanted) << "killed at line " << line;
    const Result<VerifyReport> verified = verify_campaign(world.path());
    EXPECT_TRUE(verified->ok() && verified->findings.empty()) << "line " << line << "\n" << verified->text();
    EXPECT_TRUE(replay_campaign(world.path())->ok());
    EXPECT_EQ(*world.git->head(), world.state().incumbent.commit);
  }
  EXPECT_GT(killed, 25);
}
INSTANTIATE_TEST_SUITE_P(Moments, KillMatrix,
                         testing::Values(Moment::kBeforeTheLine, Moment::kInTheLine, Moment::kAfterTheLine));

TEST(Kill, AgainAndAgainEveryFewLinesStillEndsTheSame) {
  const std::string wanted = uninterrupted();
  for (const int every : {2, 3, 5}) {  // fewer never get past their own "resumed" line
    World world(answers());
    ASSERT_TRUE(world.create());
    int times = 0;
    while (run_until_killed(world, every, times % 2 == 0 ? Moment::kInTheLine : Moment::kAfterTheLine)) {
      ASSERT_LT(++times, 200);
    }
    EXPECT_EQ(outcome_of(world.state()), wanted);
    EXPECT_TRUE(verify_campaign(world.path())->ok());
  }
}

TEST(Kill, InsideAWorkerOrAProposerIsDoneAgain) {
  const std::string wanted = uninterrupted();
  for (int fatal = 1; fatal <= 8; ++fatal) {
    int calls = 0;
    const auto count = [&] {
      if (++calls == fatal) throw Killed{};
    };
    World world([&](const record::ProposalRequest& request) -> Result<record::Proposal> {
      count();
      return answers()(request);
    });
    world.executor.on(record::WorkerTask::kEvaluate, [&](const record::WorkerRequest& request) {
      count();
      return evaluate(request);
    });
    bool killed = false;
    try {
      EXPECT_TRUE(world.run());
    } catch (const Killed&) {
      killed = true;
    }
    EXPECT_TRUE(killed);
    ASSERT_TRUE(world.run());
    EXPECT_EQ(outcome_of(world.state()), wanted) << "call " << fatal;
  }
}

TEST(Kill, AKilledCampaignIsBehindItsJournalAndNotForged) {
  for (int line = 12; line < 26; line += 2) {
    World world(answers());
    ASSERT_TRUE(world.create());
    ASSERT_TRUE(run_until_killed(world, line, Moment::kAfterTheLine));
    const Result<VerifyReport> report = verify_campaign(world.path());
    EXPECT_TRUE(report->ok()) << "line " << line << "\n" << report->text();
  }
}

// Real processes and real SIGKILLs, with a real git: the lock of a dead process is taken over as well.
TEST(Kill, MinusNineAtRandomTimesEndsTheSame) {
  const std::string wanted = uninterrupted();
  World world(answers());
  ASSERT_TRUE(world.create());
  int kills = 0;
  for (unsigned delay = 2000;; delay += 9000) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      world.git = execute::make_git(world.path() / "src");
      const Result<RunResult> result = world.run();
      if (!result) ADD_FAILURE() << result.error().text();
      ::_exit(result && result->end == RunEnd::kDone ? 0 : 1);
    }
    ::usleep(delay);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ASSERT_LT(++kills, 200);
  }
  EXPECT_GT(kills, 3);
  EXPECT_EQ(outcome_of(world.state()), wanted);
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
  EXPECT_EQ(*execute::make_git(world.path() / "src")->head(), world.state().incumbent.commit);
}

TEST(Kill, LockFilesOfAKilledGitAreInNobodysWay) {
  World world(answers());
  world.git = execute::make_git(world.path() / "src");
  ASSERT_TRUE(world.create());
  ASSERT_TRUE(run_until_killed(world, 12, Moment::kBeforeTheLine));
  for (const char* file : {"index.lock", "HEAD.lock", "refs/heads/main.lock"}) {
    ASSERT_TRUE(write_file_durably(world.path() / "src/.git" / file, ""));
  }
  const Result<RunResult> resumed = world.run();
  ASSERT_TRUE(resumed) << resumed.error().text();
  EXPECT_EQ(*world.git->head(), world.state().incumbent.commit);
}

// A campaign folder inside a checkout: its commits must never land in the user's repository.
TEST(Kill, ARepositoryAboveTheCampaignIsLeftAlone) {
  World world(answers());
  ASSERT_TRUE(write_file_durably(world.base() / "users.txt", "mine"));
  const std::unique_ptr<execute::Git> users = execute::make_git(world.base());
  ASSERT_TRUE(users->init());
  const std::string before = users->commit("mine", {"users.txt"}).value();
  world.git = execute::make_git(world.path() / "src");
  ASSERT_TRUE(world.run());
  EXPECT_EQ(*users->head(), before);
  EXPECT_TRUE(std::filesystem::exists(world.path() / "src/.git"));
  EXPECT_NE(*world.git->head(), before);
}

TEST(Kill, AFullDiskEndsTheRunWithAnErrorAndResumes) {
  class FullDisk final : public JournalSink {
   public:
    FullDisk(std::unique_ptr<JournalSink> file, int lines) : file_(std::move(file)), lines_(lines) {}
    Status append(std::size_t offset, std::string_view line) override {
      if (--lines_ < 0) return Error{ErrorCode::kIo, "no space left on device", "free some space"};
      return file_->append(offset, line);
    }
    Status truncate(std::size_t size) override { return file_->truncate(size); }

   private:
    std::unique_ptr<JournalSink> file_;
    int lines_;
  };
  const std::string wanted = uninterrupted();
  for (int lines = 0; lines < 30; lines += 3) {
    World world(answers());
    ASSERT_TRUE(world.create());
    {
      auto engine =
          world.open(std::make_unique<FullDisk>(open_journal_file(world.path() / "journal.jsonl").value(), lines));
      ASSERT_TRUE(engine);
      const Result<RunResult> stopped = (*engine)->run();
      ASSERT_FALSE(stopped);
      EXPECT_EQ(stopped.error().code, ErrorCode::kIo);
      EXPECT_FALSE(stopped.error().hint.empty());
    }
    ASSERT_TRUE(world.run());
    EXPECT_EQ(outcome_of(world.state()), wanted);
  }
}

}  // namespace
}  // namespace ridge::campaign::test
