// The process of a candidate or a library, seen from outside: what the sandbox leaves of one that tries to get out
// (that each part of it stops the attack it is there for is shown in tests/cheats), and what it may do between its
// calls.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "evaluate/host_process.h"
#include "evaluate/host_spawn.h"
#include "places.h"
#include "toolchain/build.h"

namespace ridge::evaluate {
namespace {

using record::Defence;

class Isolation : public ::testing::Test {
 protected:
  Attempt<HostProcess> start(const std::string& body, const Defences& defences = {}) {
    const auto compiler = toolchain::find_host_compiler();
    EXPECT_TRUE(compiler.ok());
    record::Candidate candidate;
    candidate.sources = {
        {"kernel.cpp",
         "#include <sys/prctl.h>\n#include <unistd.h>\n#include <thread>\n#include \"ridge/candidate.h\"\n"
         "extern \"C\" int ridge_kernel(const ridge_call*) {\n" +
             body + "\n  return 0;\n}\n"}};
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    const auto built = toolchain::build(candidate, *compiler, options);
    EXPECT_TRUE(built.ok() && built->ok()) << built->error;
    HostOptions host;
    host.program = binary_dir() / "bin" / "ridge-host";
    host.region_bytes = 4096;
    host.defences = defences;
    return HostProcess::start_candidate(built->artifact, host);
  }

  Result<TempDir> directory_ = TempDir::create("ridge-isolation");
};

// Processes of that name, anywhere on this machine.
int processes_named(const std::string& name) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "comm");
    std::string line;
    if (std::getline(file, line) && line == name) ++count;
  }
  return count;
}

TEST_F(Isolation, IsCompleteOrSaysWhatIsMissing) {
  auto started = start("");
  ASSERT_TRUE(started.ok()) << started.error().detail;
  const std::uint32_t bits = started->sandbox();
  RecordProperty("sandbox", describe_sandbox(bits));
  EXPECT_NE(bits & kSystemCallFilter, 0u);
  EXPECT_NE(bits & kSealed, 0u);
  EXPECT_NE(bits & kLimits, 0u);
  EXPECT_NE(bits & kNoNewPrivileges, 0u);
}

TEST_F(Isolation, NamesWhatIsSwitchedOff) {
  for (const Defence gate : {Defence::kPidNamespace, Defence::kMountNamespace, Defence::kNetNamespace,
                             Defence::kIpcNamespace, Defence::kUserNamespace, Defence::kSystemCalls, Defence::kFiles}) {
    auto started = start("", Defences().without(gate));
    ASSERT_TRUE(started.ok()) << started.error().detail;
    const std::string text = describe_sandbox(started->sandbox());
    EXPECT_NE(text.find(record::name_of(gate)), std::string::npos) << text;
  }
}

// A daemon in a session of its own survives the end of its process group; it does not survive that of its name space.
TEST_F(Isolation, EndsEveryProcessThatACandidateStarted) {
  const std::string name = "ridge-" + std::to_string(::getpid());
  const std::string daemon = "if (fork() == 0) { setsid(); prctl(PR_SET_NAME, \"" + name +
                             "\"); for (int i = 0; i < 5; ++i) sleep(1); _exit(0); }\n  usleep(20000);";
  auto started = start(daemon, Defences().without(Defence::kSystemCalls).without(Defence::kBuild));
  ASSERT_TRUE(started.ok()) << started.error().detail;
  {
    HostProcess host = std::move(*started);
    if ((host.sandbox() & kPidNamespace) == 0) GTEST_SKIP() << "this machine gives no process name space";
    ASSERT_TRUE(host.call({}, {}, 1).ok());
    EXPECT_EQ(processes_named(name), 1) << "the daemon should be there as long as its host is";
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(processes_named(name), 0);
}

TEST_F(Isolation, StartsAFreshProcessWithoutOurDescriptorsAndEnvironment) {
  ::setenv("RIDGE_ISOLATION_TEST", "1", 1);
  auto started = start("extern char** environ; int n = 0; while (environ[n]) ++n; return n == 2 ? 0 : 1;",
                       Defences().without(Defence::kBuild));  // it imports environ
  ASSERT_TRUE(started.ok()) << started.error().detail;
  const CallResult result = started->call({}, {}, 1);
  EXPECT_TRUE(result.ok()) << result.error().detail;
}

constexpr std::chrono::milliseconds kLongEnough{50};  // for a thread that never sleeps to use some of it

TEST_F(Isolation, ALibraryUsesNoProcessorTimeWhileItIsFrozen) {
  auto started = HostProcess::start_library(
      [](const ridge_call&) {
        std::thread([] {
          for (volatile std::uint64_t i = 0;;) i = i + 1;
        }).detach();
        return 0;
      },
      {.cpus = {}, .region_bytes = 4096});
  ASSERT_TRUE(started.ok()) << started.error().detail;
  HostProcess host = std::move(*started);
  ASSERT_TRUE(host.call({}, {}, 1).ok());
  host.freeze();
  std::this_thread::sleep_for(kLongEnough);
  const double stopped = host.cpu_seconds();
  std::this_thread::sleep_for(kLongEnough);
  EXPECT_EQ(host.cpu_seconds(), stopped);
  host.thaw();
  std::this_thread::sleep_for(kLongEnough);
  EXPECT_GT(host.cpu_seconds(), stopped);
}

TEST_F(Isolation, ACandidateCannotHideItsThreadsByBeingFrozen) {
  auto started = start("std::thread([] { for (volatile unsigned long i = 0;;) i = i + 1; }).detach();");
  ASSERT_TRUE(started.ok()) << started.error().detail;
  HostProcess host = std::move(*started);
  ASSERT_TRUE(host.call({}, {}, 1).ok());
  host.freeze();
  std::this_thread::sleep_for(kLongEnough);
  Verdict verdict = passed();  // one contradiction may be the hypervisor's, the eighth is a habit
  for (int look = 0; look < 8 && verdict.ok(); ++look) verdict = host.check_quiet();
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().gate, Defence::kUnpaidWork);
}

}  // namespace
}  // namespace ridge::evaluate
