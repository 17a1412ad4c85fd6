// A campaign of twelve rounds is killed by SIGKILL at every effect it has on the disk: before every write of the
// journal and in the middle of it, before every fsync, every rename and every truncation. It is resumed, and everything
// on disk must be, byte for byte, what the campaign that was left alone has.
//
// This program defines fsync, rename, pwrite and ftruncate itself, so that it can count them: each is one point.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "campaign/verify.h"
#include "campaign/world.h"

namespace {

long calls = 0, fatal_call = -1;  // counted in the child that is to be killed
bool disk_full = false;           // instead of being killed, it finds the disk full from that call on

bool is_fatal() { return ++calls == fatal_call && !disk_full; }
bool is_full() { return disk_full && fatal_call > 0 && calls >= fatal_call; }
void die() { ::kill(::getpid(), SIGKILL); }
int no_space() {
  errno = ENOSPC;
  return -1;
}

}  // namespace

extern "C" {
int fsync(int fd) {
  if (is_fatal()) die();
  if (is_full()) return no_space();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  if (is_fatal()) die();
  if (is_full()) return no_space();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int ftruncate(int fd, off_t length) noexcept {
  if (is_fatal()) die();
  return static_cast<int>(::syscall(SYS_ftruncate, fd, length));
}
// Half of the bytes reach the file, then the process is gone: a torn line.
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  if (is_fatal()) {
    (void)!::syscall(SYS_pwrite64, fd, data, size / 2, offset);
    die();
  }
  if (is_full()) return no_space();
  return ::syscall(SYS_pwrite64, fd, data, size, offset);
}
}

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

// Twelve rounds with everything that can happen in one: accepted, slower, a sweep, wrong and repaired, crashed,
// refused.
ScriptedProposer::Answer story() {
  return [](const record::ProposalRequest& request) -> Result<record::Proposal> {
    const std::int64_t n = request.round;
    if (n > 13) return nothing_left();
    const std::string key = "direction " + std::to_string(n);
    if (n % 4 == 2) return make_proposal({make_candidate(100 + 20 * n)}, key);
    if (n % 4 == 3) return make_proposal({make_candidate(50 + n)}, key);
    if (n % 4 == 0) return make_proposal({make_candidate(30 + n), make_candidate(101 + 20 * n)}, key);
    if (request.last_error.empty()) return make_proposal({make_candidate(n == 9 ? kCrashes : kDoesNotCompile)}, key);
    return make_proposal({make_candidate(n == 13 ? 60 : 102 + 20 * n)}, key);
  };
}

class Twelve : public World {
 public:
  explicit Twelve(bool real_git) : World(story(), spec(real_git)) {
    clock = VirtualClock(1'767'225'600, 0);  // time does not pass, so that every byte can be compared
    if (real_git) git = execute::make_git(path() / "src");
    engine_options.experience = base() / "experience";
  }

 private:
  static record::CampaignSpec spec(bool real_git) {
    record::CampaignSpec spec = make_spec();
    spec.git_commit = real_git;
    return spec;
  }
};

// Everything on disk but the journal, the lock and the repository's own files.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (fs::recursive_directory_iterator it(directory), end; it != end; ++it) {
    if (it->path().filename() == ".git") it.disable_recursion_pending();
    const std::string path = it->path().lexically_relative(directory).string();
    if (it->is_regular_file() && path != "c/journal.jsonl" && path != "c/lock") files[path] = *read_file(it->path());
  }
  return files;
}

// The story without what tells of restarts: intents, "resumed", and where in the chain an event stands.
std::string told(const fs::path& journal) {
  std::string text;
  const record::JournalText story = *record::read_journal(journal);
  for (const record::Event& event : story.events) {
    if (event.kind == record::EventKind::kIntent || event.kind == record::EventKind::kResumed) continue;
    Json payload = event.payload;
    text += std::string(record::name_of(event.kind)) + " " + dump_json(payload) + "\n";
  }
  return text;
}

struct Uninterrupted {
  std::map<std::string, std::string> files;
  std::string story;
  std::size_t rounds = 0;
};
Uninterrupted uninterrupted(bool real_git) {
  Twelve world(real_git);
  const Result<RunResult> done = world.run();
  EXPECT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->end, RunEnd::kDone) << done->reason;
  return {contents(world.base()), told(world.path() / "journal.jsonl"), world.state().rounds.size()};
}

// True when the child was killed at its n-th call; false when it came to its end before.
bool killed_at(Twelve& world, long point) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls = 0;
    fatal_call = point;
    const Result<RunResult> result = world.run();
    if (!result) std::fprintf(stderr, "%s\n", result.error().text().c_str());
    ::_exit(result && result->end == RunEnd::kDone ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "point " << point;
  return WIFSIGNALED(status);
}

// True when the child found the disk full at its n-th call and ended with an error that says so.
bool found_full_disk_at(Twelve& world, long point) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls = 0;
    fatal_call = point;
    disk_full = true;
    const Result<RunResult> result = world.run();
    fatal_call = -1;
    if (!result && result.error().hint.empty()) std::fprintf(stderr, "%s\n", result.error().text().c_str());
    ::_exit(result ? 0 : result.error().hint.empty() ? 2 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 2) << "point " << point << ": no way out is named";
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

// Commit ids hold the time of git's own clock.
void expect_same(const Uninterrupted& wanted, Twelve& world, long point, bool real_git) {
  const std::map<std::string, std::string> files = contents(world.base());
  for (const auto& [path, content] : wanted.files) {
    const auto found = files.find(path);
    ASSERT_NE(found, files.end()) << path << " is missing after a kill at point " << point;
    if (!real_git) {
      EXPECT_EQ(found->second, content) << path << " after a kill at point " << point;
    }
  }
  for (const auto& [path, content] : files) {
    EXPECT_TRUE(wanted.files.contains(path)) << path << " is left over after a kill at point " << point;
  }
  if (!real_git) {
    EXPECT_EQ(told(world.path() / "journal.jsonl"), wanted.story) << "point " << point;
  }
}

// What a whole matrix came to. Printed while it runs and at its end; RIDGE_KILL_MATRIX_RESULTS names a CSV file to add
// it to.
class Tally {
 public:
  explicit Tally(std::string what) : what_(std::move(what)), began_(std::chrono::steady_clock::now()) {}
  ~Tally() {
    const std::string row = fmt::format("{},{},{},{},{:.0f}\n", what_, points, lost, repeated, seconds());
    std::fputs(row.c_str(), stdout);
    if (const char* path = std::getenv("RIDGE_KILL_MATRIX_RESULTS")) std::ofstream(path, std::ios::app) << row;
  }
  // After a resumption: every round number once, as in the campaign that was left alone.
  void count(const State& state, std::size_t rounds) {
    std::set<std::int64_t> seen;
    for (const Round& round : state.rounds) repeated += seen.insert(round.number).second ? 0 : 1;
    for (std::size_t i = 0; i < rounds; ++i) lost += seen.contains(static_cast<std::int64_t>(i) + 2) ? 0 : 1;
    if (++points % 50 == 0) {
      std::fprintf(stderr, "%s: %ld points, %.0f s, %ld rounds lost, %ld repeated\n", what_.c_str(), points, seconds(),
                   lost, repeated);
    }
  }
  long points = 0, lost = 0, repeated = 0;

 private:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  std::string what_;
  std::chrono::steady_clock::time_point began_;
};

void kill_everywhere(bool real_git, long stride, long first, Tally* tally) {
  const Uninterrupted wanted = uninterrupted(real_git);
  ASSERT_EQ(wanted.rounds, 12u);
  for (long point = first;; point += stride) {
    Twelve world(real_git);
    ASSERT_TRUE(world.create());
    if (!killed_at(world, point)) return;
    const Result<RunResult> resumed = world.run();
    ASSERT_TRUE(resumed) << "point " << point << ": " << resumed.error().text();
    ASSERT_EQ(resumed->end, RunEnd::kDone) << "point " << point << ": " << resumed->reason;
    ASSERT_NO_FATAL_FAILURE(expect_same(wanted, world, point, real_git));
    const State state = world.state();
    tally->count(state, wanted.rounds);
    ASSERT_EQ(state.rounds.size(), wanted.rounds) << "point " << point;
    const Result<VerifyReport> verified = verify_campaign(world.path());
    ASSERT_TRUE(verified && verified->ok() && verified->findings.empty()) << "point " << point << "\n"
                                                                          << verified->text();
    ASSERT_TRUE(replay_campaign(world.path())->ok()) << point;
    if (real_git) {
      ASSERT_EQ(*world.git->head(), state.incumbent.commit) << point;
    }
  }
}

bool full() {
  const char* wish = std::getenv("RIDGE_KILL_MATRIX");
  return wish != nullptr && std::string_view(wish) == "full";
}

TEST(KillMatrix, AtEveryEffectOnTheDiskLosesAndRepeatsNothing) {
  Tally tally("SIGKILL at an effect on the disk");
  kill_everywhere(false, full() ? 1 : 41, full() ? 1 : 5, &tally);
  EXPECT_GE(tally.points, full() ? 400 : 8);
  EXPECT_EQ(tally.lost + tally.repeated, 0);
}

TEST(FullDisk, AtAnyWriteEndsWithTheWayOutAndLosesNothing) {
  const Uninterrupted wanted = uninterrupted(false);
  Tally tally("disk full from an effect on");
  for (long point = full() ? 1 : 3;; point += full() ? 1 : 53) {
    Twelve world(false);
    ASSERT_TRUE(world.create());
    if (!found_full_disk_at(world, point)) break;
    const Result<RunResult> resumed = world.run();
    ASSERT_TRUE(resumed) << "point " << point << ": " << resumed.error().text();
    tally.count(world.state(), wanted.rounds);
    ASSERT_NO_FATAL_FAILURE(expect_same(wanted, world, point, false));
  }
  EXPECT_GE(tally.points, full() ? 400 : 6);
  EXPECT_EQ(tally.lost + tally.repeated, 0);
}

TEST(KillMatrix, WithARealRepositoryHeadIsTheLastAccepted) {
  Tally tally("SIGKILL with a real git repository");
  kill_everywhere(true, full() ? 23 : 211, 17, &tally);
  EXPECT_GE(tally.points, full() ? 10 : 2);
  EXPECT_EQ(tally.lost + tally.repeated, 0);
}

}  // namespace
}  // namespace ridge::campaign::test
