#include "execute/lease.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/files.h"
#include "execute/scripted.h"

namespace ridge::execute {
namespace {

TEST(DeviceLease, OneAtATimeInTheOrderTheyCame) {
  const TempDir folder = TempDir::create("ridge-lease").value();
  std::atomic<int> inside{0}, most{0};
  std::array<std::atomic<bool>, 3> waiting{};
  std::vector<int> served;
  std::vector<std::thread> threads;
  auto first = DeviceLease::acquire(folder.path(), "first");
  ASSERT_TRUE(first);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::string holder;
      auto lease =
          DeviceLease::acquire(folder.path(), "campaign " + std::to_string(i), {}, [&](const std::string& who) {
            holder = who;
            waiting[static_cast<std::size_t>(i)] = true;
          });
      ASSERT_TRUE(lease) << lease.error().text();
      EXPECT_FALSE(holder.empty());
      most = std::max(most.load(), ++inside);
      served.push_back(i);  // only one is inside
      --inside;
    });
    while (!waiting[static_cast<std::size_t>(i)]) std::this_thread::yield();
  }
  { const DeviceLease gone = std::move(*first); }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(served, (std::vector<int>{0, 1, 2}));
}

TEST(DeviceLease, ADeadProcessLosesItsTicket) {
  const TempDir folder = TempDir::create("ridge-lease").value();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto lease = DeviceLease::acquire(folder.path(), "child");
    (void)!::write(ready[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  bool waited = false;
  ::kill(child, SIGKILL);
  const auto lease = DeviceLease::acquire(folder.path(), "parent", {}, [&](const std::string& holder) {
    waited = true;
    EXPECT_NE(holder.find("child"), std::string::npos);
  });
  EXPECT_TRUE(lease);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(DeviceLease, WaitingEndsWhenAskedToAndLeavesNoTicket) {
  const TempDir folder = TempDir::create("ridge-lease").value();
  const auto held = DeviceLease::acquire(folder.path(), "holder");
  const auto refused = DeviceLease::acquire(folder.path(), "impatient", [] { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTimeout);
  EXPECT_NE(refused.error().message.find("holder"), std::string::npos);
  int tickets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    tickets += entry.path().filename().string().starts_with("ticket-") ? 1 : 0;
  }
  EXPECT_EQ(tickets, 1);
}

TEST(LeasedExecutor, TakesTheLeaseForMeasurementsOnly) {
  const TempDir folder = TempDir::create("ridge-lease").value();
  auto scripted = std::make_unique<ScriptedExecutor>();
  scripted->on(record::WorkerTask::kBuild, record::WorkerResponse{});
  scripted->on(record::WorkerTask::kEvaluate, record::WorkerResponse{});
  const auto executor = make_leased_executor(std::move(scripted), folder.path(), "campaign");
  record::WorkerRequest request;
  auto held = DeviceLease::acquire(folder.path(), "other");
  request.task = record::WorkerTask::kBuild;
  EXPECT_TRUE(executor->run(request));
  request.task = record::WorkerTask::kEvaluate;
  std::string shown;
  const auto refused = executor->run(
      request, [&](const record::Progress& progress) { shown = progress.detail; }, [&] { return !shown.empty(); });
  EXPECT_FALSE(refused);
  EXPECT_NE(shown.find("other"), std::string::npos);
  EXPECT_GT(executor->waited(), 0);
  { const DeviceLease gone = std::move(*held); }
  EXPECT_TRUE(executor->run(request));
}

}  // namespace
}  // namespace ridge::execute
