#include "execute/local_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "execute/lease.h"
#include "execute/quiet.h"

namespace ridge::execute {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;

// Answers by a function, and keeps which requests it had.
class Fake final : public Executor {
 public:
  using Answer = std::function<Result<WorkerResponse>(const WorkerRequest&, const OnProgress&, const ShouldStop&)>;
  Fake(Answer answer, std::vector<std::int64_t>& had) : answer_(std::move(answer)), had_(had) {}
  Result<WorkerResponse> run(const WorkerRequest& request, const OnProgress& on_progress,
                             const ShouldStop& should_stop) override {
    had_.push_back(request.samples);
    return answer_(request, on_progress, should_stop);
  }

 private:
  Answer answer_;
  std::vector<std::int64_t>& had_;
};

WorkerResponse answer_to(const WorkerRequest& request) {
  WorkerResponse response;
  response.cpu_seconds = static_cast<double>(request.samples);
  return response;
}

std::vector<WorkerRequest> requests(std::int64_t count) {
  std::vector<WorkerRequest> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    all[static_cast<std::size_t>(i)].samples = i;
    all[static_cast<std::size_t>(i)].task = record::WorkerTask::kBench;
  }
  return all;
}

// Two devices.
class Pool : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> pool(Fake::Answer first, Fake::Answer second) {
    std::vector<std::unique_ptr<Executor>> workers;
    workers.push_back(std::make_unique<Fake>(std::move(first), had_[0]));
    workers.push_back(std::make_unique<Fake>(std::move(second), had_[1]));
    return make_pool(std::move(workers));
  }
  std::vector<std::int64_t> had_[2];
};

TEST_F(Pool, EveryDeviceBeginsWithOneAndTheNextGoesToTheOneThatIsFree) {
  std::atomic<int> done = 0;
  const auto quick = [&](const WorkerRequest& request, const OnProgress& progress, const ShouldStop&) {
    progress({"quick", "", 0.5});
    ++done;
    return Result<WorkerResponse>(answer_to(request));
  };
  const auto slow = [&](const WorkerRequest& request, const OnProgress&, const ShouldStop&) {
    while (done < 4) std::this_thread::yield();
    return Result<WorkerResponse>(answer_to(request));
  };
  const auto both = pool(slow, quick);
  EXPECT_EQ(both->width(), 2u);
  const std::thread::id caller = std::this_thread::get_id();
  std::set<std::size_t> told;
  const auto answers = both->run_all(requests(5), [&](std::size_t part, const record::Progress& now) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(now.stage, "quick");
    told.insert(part);
  });
  ASSERT_EQ(answers.size(), 5u);
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i]->cpu_seconds, static_cast<double>(i));
  EXPECT_EQ(had_[0], (std::vector<std::int64_t>{0}));
  EXPECT_EQ(had_[1], (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(told, (std::set<std::size_t>{1, 2, 3, 4}));
  EXPECT_TRUE(both->run(requests(1)[0]).ok());
  EXPECT_EQ(had_[0].size(), 2u) << "run() uses the first device";
  EXPECT_EQ(both->run_all(requests(1)).size(), 1u);
  EXPECT_TRUE(both->run_all({}).empty());
}

TEST_F(Pool, AStopEndsWhatRunsAndBeginsNoOther) {
  std::atomic<int> running = 0;
  const auto until_stopped = [&](const WorkerRequest&, const OnProgress&, const ShouldStop& stop) {
    ++running;
    while (!stop()) std::this_thread::yield();
    return Result<WorkerResponse>(make_error(ErrorCode::kConflict, "stopped on request"));
  };
  const auto answers = pool(until_stopped, until_stopped)->run_all(requests(6), {}, [&] { return running == 2; });
  ASSERT_EQ(answers.size(), 6u);
  for (const auto& one : answers) {
    ASSERT_FALSE(one.ok());
    EXPECT_EQ(one.error().code, ErrorCode::kConflict);
  }
  EXPECT_EQ(had_[0].size() + had_[1].size(), 2u);
}

TEST_F(Pool, OneThatFailsLeavesTheOthersAlone) {
  const auto fails = [](const WorkerRequest& request, const OnProgress&, const ShouldStop&) {
    return request.samples == 2 ? Result<WorkerResponse>(make_error(ErrorCode::kToolFailed, "killed by signal 9"))
                                : Result<WorkerResponse>(answer_to(request));
  };
  const auto answers = pool(fails, fails)->run_all(requests(4));
  ASSERT_EQ(answers.size(), 4u);
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].ok(), i != 2) << i;
}

TEST_F(Pool, UnderALeaseAndInQuietAllOfThemWaitOnce) {
  const auto folder = TempDir::create("ridge-test");
  const auto at_once = [](const WorkerRequest& request, const OnProgress&, const ShouldStop&) {
    return Result<WorkerResponse>(answer_to(request));
  };
  VirtualClock clock;
  int looks = 0;
  const auto look = [&] {
    clock.advance(1);
    return Neighbourhood{looks++ < 3 ? 0.44 : 0.02, 0.0, {}};
  };
  const auto polite =
      make_leased_executor(make_quiet_executor(pool(at_once, at_once), clock, {.limit = 30, .look = look}),
                           folder->path() / "device", "a test");
  EXPECT_EQ(polite->width(), 2u);
  std::set<std::size_t> told;
  const auto answers =
      polite->run_all(requests(4), [&](std::size_t part, const record::Progress&) { told.insert(part); });
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i]->cpu_seconds, static_cast<double>(i));
  EXPECT_EQ(looks, 4);
  EXPECT_NEAR(polite->waited(), 4, 0.5);
  EXPECT_EQ(told.size(), 4u);
  EXPECT_EQ(had_[1].size() + had_[0].size(), 4u);
  EXPECT_FALSE(had_[0].empty() || had_[1].empty());
  looks = 0;
  const auto stopped = polite->run_all(requests(2), {}, [] { return true; });
  ASSERT_EQ(stopped.size(), 2u);
  EXPECT_FALSE(stopped[0].ok() || stopped[1].ok());
}

TEST(LocalPool, AWorkerSeesItsOwnDeviceOnly) {
  const auto folder = TempDir::create("ridge-test");
  const std::filesystem::path worker = folder->path() / "worker";
  ASSERT_TRUE(write_file_durably(
      worker, "#!/bin/sh\necho \"{\\\"version\\\":1,\\\"error\\\":\\\"$CUDA_VISIBLE_DEVICES\\\"}\" > $2\n"));
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const auto pool = make_local_pool(worker, {"3", "GPU-ab"});
  const auto answers = pool->run_all(requests(2));
  ASSERT_TRUE(answers[0].ok() && answers[1].ok());
  EXPECT_EQ(answers[0]->error, "3");
  EXPECT_EQ(answers[1]->error, "GPU-ab");
  EXPECT_EQ(pool->run({})->error, "3");
}

}  // namespace
}  // namespace ridge::execute
