#include "base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProcessResult run(ProcessSpec spec) {
  Result<ProcessResult> result = run_process(spec);
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().text());
  return result ? *result : ProcessResult{};
}

ProcessSpec shell(const std::string& script) { return ProcessSpec{.argv = {"sh", "-c", script}}; }

TEST(Process, CapturesBothStreamsAndTheExitCode) {
  const ProcessResult result = run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.error_output, "err\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.succeeded());
  EXPECT_EQ(result.describe(), "exited with 3");
}

TEST(Process, FeedsStandardInputLargerThanAPipe) {
  ProcessSpec spec = shell("wc -c");
  spec.standard_input = std::string(1 << 20, 'x');
  EXPECT_THAT(run(spec).output, HasSubstr("1048576"));
}

TEST(Process, SurvivesAProgramThatNeverReadsItsInput) {
  ProcessSpec spec = shell("exit 0");
  spec.standard_input = std::string(1 << 20, 'x');
  EXPECT_TRUE(run(spec).succeeded());
}

TEST(Process, KillsTheWholeTreeAtTheTimeLimit) {
  ProcessSpec spec = shell("sleep 60 & sleep 60; echo never");
  spec.timeout = 0.2;
  const ProcessResult result = run(spec);
  EXPECT_EQ(result.end, ProcessResult::End::kTimedOut);
  EXPECT_LT(result.wall, 5.0);
  EXPECT_EQ(result.output, "");
}

TEST(Process, EndsWhenABackgroundChildKeepsTheStreamsOpen) {
  const ProcessResult result = run(shell("sleep 60 & echo done"));
  EXPECT_EQ(result.output, "done\n");
  EXPECT_LT(result.wall, 5.0);
}

TEST(Process, StopsWhenAsked) {
  ProcessSpec spec = shell("sleep 60");
  spec.should_stop = [] { return true; };
  EXPECT_EQ(run(spec).end, ProcessResult::End::kStopped);
}

TEST(Process, ReportsTheSignal) {
  const ProcessResult result = run(shell("kill -SEGV $$"));
  EXPECT_EQ(result.end, ProcessResult::End::kSignalled);
  EXPECT_THAT(result.describe(), HasSubstr("11"));
}

TEST(Process, HandsOutLinesAsTheyCome) {
  std::vector<std::string> lines;
  ProcessSpec spec = shell("echo one >&2; echo two >&2; printf three >&2");
  spec.on_error_line = [&](std::string_view line) { lines.emplace_back(line); };
  run(spec);
  EXPECT_THAT(lines, ElementsAre("one", "two", "three"));
}

TEST(Process, KeepsOutputUpToItsLimit) {
  ProcessSpec spec = shell("head -c 1000000 /dev/zero");
  spec.output_limit_bytes = 1000;
  EXPECT_EQ(run(spec).output.size(), 1000u);
}

TEST(Process, EnforcesTheMemoryLimit) {
  ProcessSpec spec = shell("head -c 400000000 /dev/zero | tail -c 400000000 | wc -c");
  spec.memory_limit_bytes = 64u << 20;
  EXPECT_THAT(run(spec).output, Not(HasSubstr("400000000")));
}

TEST(Process, NamesAProgramThatDoesNotExist) {
  const Result<ProcessResult> result = run_process({.argv = {"no-such-program-anywhere"}});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("no-such-program-anywhere"));
}

TEST(Process, NamesADirectoryThatDoesNotExist) {
  const Result<ProcessResult> result = run_process({.argv = {"true"}, .directory = "/no/such/directory"});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("No such file"));
}

TEST(Process, ReplacesTheEnvironment) {
  ProcessSpec spec = shell("echo \"$HOME/$X\"");
  spec.environment = {{"X", "1"}, {"PATH", "/usr/bin:/bin"}};
  spec.clear_environment = true;
  EXPECT_EQ(run(spec).output, "/1\n");
}

TEST(Process, QuotesACommandAsAPersonWouldTypeIt) {
  EXPECT_EQ(quote_command({"g++", "-O3", "a b.cpp", "it's"}), "g++ -O3 'a b.cpp' 'it'\\''s'");
}

}  // namespace
}  // namespace ridge
