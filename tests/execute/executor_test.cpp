#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files.h"
#include "execute/local.h"
#include "execute/scripted.h"

namespace ridge::execute {
namespace {

using ::testing::HasSubstr;

// A worker written in shell: $1 is the request, $2 the response.
class LocalWorker : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> worker(const std::string& script, LocalOptions options = {}) {
    const std::filesystem::path path = directory_->path() / "worker";
    EXPECT_TRUE(write_file_durably(path, "#!/bin/sh\n" + script + "\n").ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return make_local_executor(path, options);
  }
  Result<TempDir> directory_ = TempDir::create("ridge-test");
};

TEST_F(LocalWorker, ReturnsTheResponseAndForwardsProgress) {
  std::vector<record::Progress> seen;
  const auto response = worker(
                            "grep -q '\"task\":\"describe\"' $1 || exit 9\n"
                            "echo '@ridge {\"stage\":\"half\",\"detail\":\"x\",\"fraction\":0.5}' >&2\n"
                            "echo '{\"version\":1,\"error\":\"no such case\"}' > $2")
                            ->run({}, [&](const record::Progress& progress) { seen.push_back(progress); });
  ASSERT_TRUE(response.ok()) << response.error().text();
  EXPECT_EQ(response->error, "no such case");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].stage, "half");
}

TEST_F(LocalWorker, SaysHowAWorkerDiedWithoutAResponse) {
  const auto response = worker("echo 'bus error in the harness' >&2; kill -SEGV $$")->run({});
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code, ErrorCode::kToolFailed);
  EXPECT_THAT(response.error().message, HasSubstr("killed by signal 11"));
  EXPECT_THAT(response.error().message, HasSubstr("bus error in the harness"));
}

TEST_F(LocalWorker, DoesNotTrustExitCodeZeroWithoutAResponse) {
  const auto response = worker("exit 0")->run({});
  ASSERT_FALSE(response.ok());
  EXPECT_THAT(response.error().message, HasSubstr("left no response"));
}

TEST_F(LocalWorker, RefusesAHalfWrittenResponse) {
  EXPECT_FALSE(worker("echo '{\"version\":1,' > $2")->run({}).ok());
  EXPECT_FALSE(worker("echo '{\"version\":99}' > $2")->run({}).ok());
}

TEST_F(LocalWorker, KillsTheTreeOfAWorkerThatOverrunsItsTimeLimit) {
  record::WorkerRequest request;
  request.time_limit = 0.1;
  const std::string survivor = (directory_->path() / "survivor").string();
  const auto response =
      worker("(sleep 1; touch " + survivor + ") & sleep 20", LocalOptions{.grace = 0.1})->run(request);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
  EXPECT_FALSE(std::filesystem::exists(survivor));
}

TEST_F(LocalWorker, KillsASilentWorker) {
  const auto response = worker("sleep 20", LocalOptions{.silent_limit = 0.1})->run({});
  ASSERT_FALSE(response.ok());
  EXPECT_THAT(response.error().message, HasSubstr("no sign of life"));
}

TEST_F(LocalWorker, StopsOnRequest) {
  const auto response = worker("sleep 20")->run({}, {}, [] { return true; });
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code, ErrorCode::kConflict);
}

TEST_F(LocalWorker, AnswersSeveralOneAfterAnotherAndBeginsNoneAfterAStop) {
  const std::filesystem::path begun = directory_->path() / "begun";
  const auto one = worker("echo . >> " + begun.string() + "; echo '{\"version\":1}' > $2");
  EXPECT_EQ(one->width(), 1u);
  const std::vector<record::WorkerRequest> requests(3);
  // Wanted as soon as the first has begun, which may have ended by then.
  const auto answers = one->run_all(requests, {}, [&] { return std::filesystem::exists(begun); });
  ASSERT_EQ(answers.size(), 3u);
  for (const std::size_t later : {1, 2}) {
    ASSERT_FALSE(answers[later].ok());
    EXPECT_EQ(answers[later].error().code, ErrorCode::kConflict);
  }
  EXPECT_EQ(*read_file(begun), ".\n");
  for (const auto& answer : one->run_all(requests)) EXPECT_TRUE(answer.ok());
  EXPECT_EQ(*read_file(begun), ".\n.\n.\n.\n");
}

TEST_F(LocalWorker, NamesAMissingWorker) {
  const auto response = make_local_executor(directory_->path() / "absent")->run({});
  ASSERT_FALSE(response.ok());
  EXPECT_THAT(response.error().text(), HasSubstr("absent"));
}

TEST(ScriptedExecutor, AnswersByTaskAndRemembersRequests) {
  ScriptedExecutor executor;
  record::WorkerResponse answer;
  answer.error_hint = "hint";
  executor.on(record::WorkerTask::kBuild, answer);
  record::WorkerRequest request;
  request.task = record::WorkerTask::kBuild;
  const auto response = executor.run(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->error_hint, "hint");
  request.task = record::WorkerTask::kBench;
  const auto missing = executor.run(request);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("bench"));
  EXPECT_EQ(executor.requests().size(), 2u);
}

}  // namespace
}  // namespace ridge::execute
