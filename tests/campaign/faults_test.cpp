// Places and accounts that are not as they should be. What needs an ordinary user runs as one: root may write anywhere.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "campaign/verify.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kNobody = 65534;

// Whether `test` holds in a child without privileges; what it prints on standard error says why not.
bool holds_for_an_ordinary_user(const std::function<bool()>& test) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(2);
    ::_exit(test() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

ScriptedProposer::Answer one_gain() { return one_per_round({make_proposal({make_candidate(150)})}); }

void set_writable(const fs::path& directory, bool writable) {
  const auto bits = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  const fs::perm_options change = writable ? fs::perm_options::add : fs::perm_options::remove;
  fs::permissions(directory, writable ? fs::perms::owner_write : bits, change);
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_symlink()) fs::permissions(entry.path(), writable ? fs::perms::owner_write : bits, change);
  }
}

TEST(Faults, ACampaignThatBecameReadOnlyIsRefusedWithTheWayOutAndGoesOnAfterwards) {
  EXPECT_TRUE(holds_for_an_ordinary_user([] {
    World world(one_gain());
    if (!world.create()) return false;
    set_writable(world.path(), false);
    const Result<RunResult> refused = world.run();
    set_writable(world.path(), true);
    if (refused || refused.error().hint.empty()) {
      std::fprintf(stderr, "%s\n", refused ? "it ran" : refused.error().text().c_str());
      return false;
    }
    const Result<RunResult> done = world.run();
    return done && done->end == RunEnd::kDone && verify_campaign(world.path())->ok();
  }));
}

TEST(Faults, AReadOnlyTreeIsStillReadVerifiedAndReplayed) {
  EXPECT_TRUE(holds_for_an_ordinary_user([] {
    World world(one_gain());
    if (!world.run()) return false;
    set_writable(world.path(), false);
    const bool good =
        load_campaign(world.path()) && verify_campaign(world.path())->ok() && replay_campaign(world.path())->ok();
    set_writable(world.path(), true);
    return good;
  }));
}

TEST(Faults, WithoutAGitIdentityRoundsAreCommittedAsTheEngine) {
  EXPECT_TRUE(holds_for_an_ordinary_user([&] {
    ::setenv("HOME", "/nonexistent", 1);
    ::setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    ::setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
    for (const char* name :
         {"EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}) {
      ::unsetenv(name);
    }
    World world(one_gain());
    world.git = execute::make_git(world.path() / "src");
    const Result<RunResult> done = world.run();
    if (!done) std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return done && done->end == RunEnd::kDone && world.state().incumbent.commit == *world.git->head();
  }));
}

TEST(Faults, AnEditedPrivateTreePausesTheCampaignAndForeignFilesAreKept) {
  World world(
      one_per_round({make_proposal({make_candidate(150)}, "one"), make_proposal({make_candidate(180)}, "two")}));
  world.git = execute::make_git(world.path() / "src");
  ASSERT_TRUE(world.create());
  ASSERT_TRUE(request_stop_after(world.path(), 1));
  ASSERT_TRUE(world.run());
  const std::string accepted = *read_file(world.path() / "src/kernel.cpp");
  ASSERT_TRUE(write_file_durably(world.path() / "src/kernel.cpp", "int edited;\n"));
  ASSERT_TRUE(write_file_durably(world.path() / "src/notes | of\nmine.txt", "keep me"));
  ASSERT_TRUE(extend_budget(world.path(), {world.state().wall_budget, 2}, world.clock));
  const Result<RunResult> paused = world.run();
  ASSERT_TRUE(paused) << paused.error().text();
  EXPECT_EQ(paused->end, RunEnd::kPaused);
  EXPECT_NE(paused->reason.find("rule 66"), std::string::npos) << paused->reason;
  EXPECT_EQ(*read_file(world.path() / "src/kernel.cpp"), accepted);  // restored with the pause
  const Result<RunResult> done = world.run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  EXPECT_EQ(*read_file(world.path() / "src/notes | of\nmine.txt"), "keep me");
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << verify_campaign(world.path())->text();
}

TEST(Faults, TwoProcessesOnOneCampaignNeverRunAtOnce) {
  World world(one_gain());
  ASSERT_TRUE(world.create());
  Result<std::unique_ptr<Engine>> first = world.open();
  ASSERT_TRUE(first) << first.error().text();
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<std::unique_ptr<Engine>> second = world.open();
    ::_exit(!second && second.error().code == ErrorCode::kConflict ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const Result<RunResult> done = (*first)->run();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone);
}

}  // namespace
}  // namespace ridge::campaign::test
