#include "device/cpu/thread_pool.h"
#include "base/environment.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "device/cpu/cpu_info.h"
#include "device/cpu/shared_library.h"

namespace ridge::device::cpu {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (const int count : {0, 1, 2, 3, 8}) {
    std::array<std::atomic<int>, 8> runs{};
    thread_pool().run(count, [&](int index) { runs[static_cast<std::size_t>(index)].fetch_add(1); });
    for (int i = 0; i < 8; ++i) EXPECT_EQ(runs[static_cast<std::size_t>(i)].load(), i < count ? 1 : 0);
  }
}

TEST(ThreadPool, GivesIndexZeroToTheCallerAndTheOthersToTheirOwnThreads) {
  std::array<std::thread::id, 3> first, second;
  thread_pool().run(3, [&](int index) { first[static_cast<std::size_t>(index)] = std::this_thread::get_id(); });
  thread_pool().run(3, [&](int index) { second[static_cast<std::size_t>(index)] = std::this_thread::get_id(); });
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_NE(first[1], first[0]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_EQ(first, second) << "threads are kept";
}

TEST(ThreadPool, ManySmallJobsDoNotLoseAWakeUp) {
  std::atomic<int> total{0};
  for (int job = 0; job < 3000; ++job) {
    thread_pool().run(2, [&](int) { total.fetch_add(1); });
    if (job % 500 == 0) usleep(2000);  // long enough for the worker to fall asleep
  }
  EXPECT_EQ(total.load(), 6000);
}

TEST(ThreadPool, ASecondCallerDoesItsWorkItself) {
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int job = 0; job < 200; ++job) thread_pool().run(3, [&](int) { total.fetch_add(1); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 200 * 3);
}

TEST(ThreadPool, ANestedCallDoesNotDeadlock) {
  std::atomic<int> total{0};
  thread_pool().run(2, [&](int) { thread_pool().run(2, [&](int) { total.fetch_add(1); }); });
  EXPECT_EQ(total.load(), 4);
}

TEST(ThreadPool, WorksOnBothSidesOfAFork) {
  thread_pool().run(2, [](int) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> total{0};
    thread_pool().run(2, [&](int) { total.fetch_add(1); });
    _exit(total.load() == 2 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

using Sets = std::vector<std::vector<int>>;

TEST(Placement, LeavesTheChoiceToTheSchedulerOnASharedMachine) {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(placement(all, 8, 2, 3), Sets(3, {0, 1, 3, 4, 5, 6, 7}))
      << "two processes must not meet on the first processors";
  EXPECT_EQ(placement(all, 8, 2, 9), Sets(9, {0, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(placement({4, 5, 6, 7}, 8, 5, 1), Sets(1, {4, 6, 7})) << "more processors than threads";
}

TEST(Placement, GivesEachThreadItsProcessorWhereTheProcessWasGivenThem) {
  EXPECT_EQ(placement({4, 5, 6, 7}, 8, 5, 3), (Sets{{4}, {6}, {7}}));
  EXPECT_EQ(placement({4, 5, 6}, 8, 5, 3), (Sets{{4}, {6}, {4}}));
}

TEST(Placement, OfOneProcessorIsThatProcessor) { EXPECT_EQ(placement({3}, 8, 3, 2), Sets(2, {3})); }

TEST(ThreadPool, WorkersFollowTheProcessorsOfTheirCaller) {
  const std::vector<int> allowed = allowed_cpus();
  if (allowed.size() < 2) GTEST_SKIP() << "needs two processors";
  const auto of_worker = [] {
    std::vector<int> cpus;
    thread_pool().run(2, [&](int index) {
      if (index == 1) cpus = allowed_cpus();
    });
    return cpus;
  };
  std::thread([&] {
    for (const int only : {allowed[0], allowed[1]}) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<std::size_t>(only), &set);
      ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
      for (int job = 0; job < 256; ++job) of_worker();  // the caller's processors are read now and then
      EXPECT_EQ(of_worker(), std::vector{only}) << "the pool has no processors that its caller has not";
    }
  }).join();
}

TEST(CpuInfo, KnowsThisProcessor) {
  const CpuInfo& cpu = cpu_info();
  EXPECT_FALSE(cpu.name.empty());
  EXPECT_GE(cpu.cpus, 1);
  EXPECT_EQ(static_cast<std::size_t>(cpu.cpus), allowed_cpus().size());
#if defined(__x86_64__)
  EXPECT_EQ(cpu.arch, "x86-64");
  EXPECT_EQ(cpu.vendor == "AuthenticAMD", __builtin_cpu_is("amd") != 0);
  EXPECT_EQ(cpu.vendor == "GenuineIntel", __builtin_cpu_is("intel") != 0);
  const bool avx2 = instruction_set_limit() >= InstructionSet::kAvx2;
  const bool avx512 = instruction_set_limit() >= InstructionSet::kAvx512;
  EXPECT_EQ(cpu.has("avx2"), avx2 && __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(cpu.has("fma"), avx2 && __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(cpu.has("avx512f"), avx512 && __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(cpu.has("avx512bw"), avx512 && __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(cpu.has("avx512_bf16"), avx512 && __builtin_cpu_supports("avx512bf16") != 0);
#endif
  EXPECT_FALSE(cpu.has("no-such-feature"));
}

TEST(SharedLibrary, SaysWhyItIsNotThere) {
  const SharedLibrary library({"libridge_no_such_library.so.1", "libridge_nor_this.so"});
  EXPECT_FALSE(library.loaded());
  EXPECT_NE(library.error().find("libridge_no_such_library.so.1"), std::string::npos);
  EXPECT_EQ(library.function<void()>("anything"), nullptr);
}

TEST(SharedLibrary, TakesTheFirstNameThatExists) {
  const SharedLibrary library({"libridge_no_such_library.so.1", "libm.so.6"});
  ASSERT_TRUE(library.loaded()) << library.error();
  EXPECT_NE(library.path().find("libm.so"), std::string::npos);
  ASSERT_NE(library.function<double(double)>("cos"), nullptr);
  EXPECT_EQ(library.function<double(double)>("cos")(0.0), 1.0);
}

TEST(SuggestEnvironment, LeavesTheUsersChoiceAlone) {
  setenv("RIDGE_TEST_SUGGESTION", "mine", 1);
  suggest_environment("RIDGE_TEST_SUGGESTION", "ours");
  EXPECT_STREQ(getenv("RIDGE_TEST_SUGGESTION"), "mine");
  unsetenv("RIDGE_TEST_SUGGESTION");
  suggest_environment("RIDGE_TEST_SUGGESTION", "ours");
  EXPECT_STREQ(getenv("RIDGE_TEST_SUGGESTION"), "ours");
}

}  // namespace
}  // namespace ridge::device::cpu
