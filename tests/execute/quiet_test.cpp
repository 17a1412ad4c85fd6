#include "execute/quiet.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "execute/scripted.h"

namespace ridge::execute {
namespace {

using record::WorkerTask;
using ::testing::HasSubstr;

struct Waiting {
  VirtualClock clock{1'767'225'600};
  int looks = 0, busy_looks = 0;
  std::unique_ptr<Executor> executor;

  explicit Waiting(double limit) {
    auto inner = std::make_unique<ScriptedExecutor>();
    inner->on(WorkerTask::kCalibrate, record::WorkerResponse{});
    inner->on(WorkerTask::kDescribe, record::WorkerResponse{});
    QuietOptions options;
    options.limit = limit;
    options.look = [this] {
      clock.advance(1);
      return Neighbourhood{looks++ < busy_looks ? 0.44 : 0.02, 0.0, {{"cc1plus", 0.31}, {"python3", 0.09}}};
    };
    executor = make_quiet_executor(std::move(inner), clock, options);
  }
  Result<record::WorkerResponse> run(WorkerTask task, const OnProgress& on_progress = {},
                                     const ShouldStop& should_stop = {}) {
    record::WorkerRequest request;
    request.task = task;
    return executor->run(request, on_progress, should_stop);
  }
};

TEST(Quiet, WaitsUntilOthersAreDoneAndSaysWhoTheyAre) {
  Waiting waiting(30);
  waiting.busy_looks = 5;
  std::string said;
  ASSERT_TRUE(waiting.run(WorkerTask::kCalibrate, [&](const record::Progress& progress) {
    if (said.empty()) said = progress.stage + ": " + progress.detail;
  }));
  EXPECT_EQ(waiting.looks, 6);
  EXPECT_DOUBLE_EQ(waiting.executor->waited(), 6);
  EXPECT_EQ(said,
            "waiting for quiet, not charged to the budget: others use 44 % of the processors: cc1plus 31 %, "
            "python3 9 %");
}

TEST(Quiet, MeasuresAllTheSameWhenTheWaitIsOver) {
  Waiting waiting(4);
  waiting.busy_looks = 1000;
  ASSERT_TRUE(waiting.run(WorkerTask::kCalibrate));
  EXPECT_EQ(waiting.looks, 4);
  ASSERT_TRUE(waiting.run(WorkerTask::kCalibrate));  // the wait is for all requests together
  EXPECT_EQ(waiting.looks, 4);
}

TEST(Quiet, DoesNotWaitForWhatMeasuresNothingNorWithoutALimit) {
  Waiting waiting(30), never(0);
  waiting.busy_looks = never.busy_looks = 1000;
  ASSERT_TRUE(waiting.run(WorkerTask::kDescribe));
  ASSERT_TRUE(never.run(WorkerTask::kCalibrate));
  EXPECT_EQ(waiting.looks + never.looks, 0);
}

TEST(Quiet, CanBeStopped) {
  Waiting waiting(1000);
  waiting.busy_looks = 1000;
  const auto stopped = waiting.run(WorkerTask::kCalibrate, {}, [&] { return waiting.looks == 3; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(waiting.looks, 3);
}

// A process that burns a processor is seen, unless it is one of our own.
TEST(Neighbours, OwnChildrenAreNotOthers) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) {
    }
  }
  const NeighbourWatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const Neighbourhood around = watch.since();
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  for (const Neighbour& one : around.neighbours) EXPECT_EQ(one.name.find("test_execute"), std::string::npos);
  EXPECT_GE(around.foreign_load, 0);
  EXPECT_LE(around.foreign_load, 1);
}

TEST(Neighbours, AProcessThatIsNotOursIsNamed) {
  // Its parent ends at once, so that it belongs to init and to no process here.
  int ids[2];
  ASSERT_EQ(::pipe(ids), 0);
  const pid_t between = ::fork();
  if (between == 0) {
    const pid_t burner = ::fork();
    if (burner == 0) {
      ::alarm(20);
      while (true) {
      }
    }
    (void)!::write(ids[1], &burner, sizeof burner);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(between, &status, 0);
  pid_t burner = 0;
  ASSERT_EQ(::read(ids[0], &burner, sizeof burner), static_cast<ssize_t>(sizeof burner));
  const NeighbourWatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const Neighbourhood around = watch.since();
  ::kill(burner, SIGKILL);
  const auto named = std::find_if(around.neighbours.begin(), around.neighbours.end(), [](const Neighbour& one) {
    return one.name.find("test_execute") != std::string::npos;
  });
  ASSERT_NE(named, around.neighbours.end()) << around.text();
  EXPECT_GT(around.foreign_load, 0.5 * named->share);
}

}  // namespace
}  // namespace ridge::execute
