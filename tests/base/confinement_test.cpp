// Programs in name spaces of their own: what they see, what they can write, and what survives them. Where the machine
// makes none, what remains is tested and the rest skips with the reason.
#include "base/confinement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/mounts.h"
#include "base/process.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

ProcessSpec shell(const std::string& script) { return ProcessSpec{.argv = {"/bin/sh", "-c", script}}; }

class Confined : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_not_confined().empty()) GTEST_SKIP() << why_not_confined();
    for (const char* folder : {"work", "secret/kept", "other"}) fs::create_directories(path() / folder);
    for (const char* file : {"work/file", "secret/file", "secret/kept/file", "other/file"}) {
      std::ofstream(path() / file) << "content of " << file << "\n";
    }
    if (::geteuid() == 0) {
      for (const char* one : {"work", "work/file"}) {
        ASSERT_EQ(::chown((path() / one).c_str(), mounts::kNobody, mounts::kNobody), 0);
      }
    }
  }
  ProcessResult run(const std::string& script, const Confinement& confinement) {
    ProcessSpec spec = shell(script);
    spec.confinement = confinement;
    spec.directory = path() / "work";
    const Result<ProcessResult> result = run_process(spec);
    EXPECT_TRUE(result.ok()) << (result ? "" : result.error().text());
    if (!result) return {};
    EXPECT_EQ(result->not_confined, "");
    return *result;
  }
  [[nodiscard]] Confinement bare() const {
    Confinement bare;
    bare.readable = {"/usr", "/bin", "/lib", "/lib64"};
    bare.writable = {path() / "work"};
    bare.place = "/build";
    bare.other_user = true;
    return bare;
  }
  [[nodiscard]] Confinement hiding() const {
    Confinement whole;
    whole.root = Confinement::Root::kWhole;
    whole.network = true;
    whole.hidden = {path() / "secret"};
    whole.shown = {path() / "secret/kept"};
    whole.readable = {path() / "other"};
    return whole;
  }
  [[nodiscard]] fs::path path() const { return directory_.path(); }
  TempDir directory_ = TempDir::create("ridge-confined").value();
};

TEST_F(Confined, ABareRootHoldsWhatIsNamedAndNothingElse) {
  const ProcessResult seen = run("pwd; ls /; cat file; ls /etc /root /home /tmp " + path().string(), bare());
  EXPECT_THAT(seen.output, HasSubstr("/build\n"));
  EXPECT_THAT(seen.output, HasSubstr("content of work/file"));
  for (const char* absent : {"secret", "proc", "passwd", "root\n", "home"})
    EXPECT_THAT(seen.output, Not(HasSubstr(absent)));
  EXPECT_EQ(run("echo x > /usr/x", bare()).exit_code != 0, true);
  EXPECT_EQ(run("echo x > /x", bare()).exit_code != 0, true);
  EXPECT_EQ(run("echo more >> file && echo new > new", bare()).exit_code, 0);
  EXPECT_TRUE(fs::exists(path() / "work/new"));
}

TEST_F(Confined, ABareRootHasNoNetworkAndNoRights) {
  const ProcessResult seen = run("id -u; umount /usr 2>/dev/null && echo unmounted; echo $PPID", bare());
  EXPECT_THAT(seen.output, HasSubstr(::geteuid() == 0 ? "65534" : std::to_string(::geteuid())));
  EXPECT_THAT(seen.output, Not(HasSubstr("unmounted")));
  EXPECT_THAT(seen.output, HasSubstr("\n1\n")) << "its parent is the first process of its own name space";
}

TEST_F(Confined, AWholeRootHidesAndProtects) {
  const std::string secret = (path() / "secret").string();
  const ProcessResult seen =
      run("cat " + secret + "/file " + secret + "/kept/file " + path().string() + "/other/file; umount " + secret +
              " 2>/dev/null; cat " + secret + "/file; cat /etc/hostname > /dev/null && echo whole",
          hiding());
  EXPECT_THAT(seen.output, Not(HasSubstr("content of secret/file")));
  EXPECT_THAT(seen.output, HasSubstr("content of secret/kept/file"));
  EXPECT_THAT(seen.output, HasSubstr("content of other/file"));
  EXPECT_THAT(seen.output, HasSubstr("whole"));
  run("echo forged > " + secret + "/file", hiding());
  for (const std::string file : {"secret/kept/new", "other/new", "other/file"}) {
    EXPECT_NE(run("echo forged > " + (path() / file).string(), hiding()).exit_code, 0) << file;
  }
  EXPECT_EQ(*read_file(path() / "other/file"), "content of other/file\n");
  EXPECT_EQ(*read_file(path() / "secret/file"), "content of secret/file\n");
}

TEST_F(Confined, TheWayThroughAnotherProcessIsClosed) {
  const std::string ours = "/proc/" + std::to_string(::getpid()) + "/root" + (path() / "secret/file").string();
  const ProcessResult seen =
      run("cat " + ours + "; for p in /proc/[0-9]*; do cat $p/root" + (path() / "secret/file").string() + "; done",
          hiding());
  EXPECT_THAT(seen.output, Not(HasSubstr("content of secret")));
}

TEST_F(Confined, SaysHowItEnded) {
  EXPECT_EQ(run("exit 7", hiding()).exit_code, 7);
  const ProcessResult killed = run("kill -9 $$", hiding());
  EXPECT_EQ(killed.end, ProcessResult::End::kSignalled);
  EXPECT_EQ(killed.signal, 9);
  ProcessSpec spec = shell("sleep 60 & setsid sleep 60");
  spec.confinement = hiding();
  spec.timeout = 0.3;
  EXPECT_EQ(run_process(spec)->end, ProcessResult::End::kTimedOut);
  spec.argv = {"/nonexistent/program"};
  EXPECT_FALSE(run_process(spec).ok());
  ProcessSpec reads = shell("wc -c");
  reads.confinement = hiding();
  reads.standard_input = std::string(1 << 20, 'x');
  EXPECT_THAT(run_process(reads)->output, HasSubstr("1048576"));
}

// A child that left group and session writes a file a moment after the program ended.
class Survivor : public ::testing::Test {
 protected:
  bool survives(ProcessSpec spec) {
    const fs::path mark = directory_.path() / "mark";
    spec.argv = {"/bin/sh", "-c",
                 "setsid sh -c '(sleep 0.4; echo alive > " + mark.string() + ") & exit 0' & sleep 0.1"};
    EXPECT_TRUE(run_process(spec).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    return fs::exists(mark);
  }
  TempDir directory_ = TempDir::create("ridge-survivor").value();
};

TEST_F(Survivor, OutlivesItsProgramWhereNothingIsDoneAboutIt) { EXPECT_TRUE(survives({})); }

TEST_F(Survivor, IsFoundWithoutNameSpaces) {
  ProcessSpec spec;
  spec.every_descendant = true;
  EXPECT_FALSE(survives(spec));
}

TEST_F(Survivor, EndsWithItsNameSpace) {
  if (!why_not_confined().empty()) GTEST_SKIP() << why_not_confined();
  ProcessSpec spec;
  spec.confinement = Confinement{.root = Confinement::Root::kWhole, .network = true};
  EXPECT_FALSE(survives(spec));
}

}  // namespace
}  // namespace ridge
