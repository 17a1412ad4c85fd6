// What a candidate gains by working against the clock: nothing beyond what docs/measurement.md says it may hide.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "evaluate/host_process.h"
#include "measure/machine.h"
#include "stats/summary.h"
#include "toolchain/build.h"

namespace ridge::evaluate {
namespace {

using record::Gate;

// A loop of about 100 us, and what finds the control block: it lies before the operand.
constexpr const char* kHead = R"(#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "ridge/candidate.h"
struct Control { uint32_t request, reply, command; int32_t status; uint64_t start_ns, end_ns; };
static uint64_t now() {
  timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void work() { volatile double x = 1; for (int i = 0; i < 60000; ++i) x = x * 1.0000001; }
)";
constexpr const char* kHonest = "extern \"C\" int ridge_kernel(const ridge_call*) { work(); return 0; }\n";
// Never returns from its first call: waits for requests itself and stamps a quarter of the time.
constexpr const char* kServesItself = R"(extern "C" int ridge_kernel(const ridge_call* call) {
  Control* c = (Control*)((char*)call->operands[0].data - 16384);
  work();
  uint32_t number = __atomic_load_n(&c->request, __ATOMIC_ACQUIRE);
  uint64_t begin = now() - 100000;
  while (true) {
    c->end_ns = now();
    c->start_ns = c->end_ns - (c->end_ns - begin) / FORGE;
    c->status = 0;
    __atomic_store_n(&c->reply, number, __ATOMIC_RELEASE);
    syscall(SYS_futex, &c->reply, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    while (__atomic_load_n(&c->request, __ATOMIC_ACQUIRE) == number)
      syscall(SYS_futex, &c->request, FUTEX_WAIT, number, nullptr, nullptr, 0);
    number = __atomic_load_n(&c->request, __ATOMIC_ACQUIRE);
    begin = now();
    work();
  }
}
)";

// `forge`: the real span over the one that it stamps.
std::string serves_itself(int forge) {
  std::string text = "constexpr int FORGE = ";
  text += std::to_string(forge);
  text += ";\n";
  text += kServesItself;
  return text;
}

class Clock : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<int> cpus = measure::usable_cpus();
    if (cpus.size() < 2) GTEST_SKIP() << "the harness has no processor of its own here";
    all_ = cpus;
    (void)measure::pin(0, {cpus.back()});
  }
  void TearDown() override {
    if (!all_.empty()) (void)measure::pin(0, all_);
  }

  Attempt<HostProcess> start(const std::string& body, const Defences& defences = {}) {
    const auto compiler = toolchain::find_host_compiler();
    EXPECT_TRUE(compiler.ok());
    record::Candidate candidate;
    candidate.sources = {{"kernel.cpp", kHead + body}};
    candidate.flags = {"-w"};
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    const auto built = toolchain::build(candidate, *compiler, options);
    EXPECT_TRUE(built.ok() && built->ok()) << built->error;
    HostOptions host;
    host.program = std::filesystem::path(RIDGE_BINARY_DIR) / "bin" / "ridge-host";
    host.cpus = {all_.front()};
    host.region_bytes = 4096;
    host.defences = defences.without(Gate::kBuild);  // system calls by number are no import of a kernel
    return HostProcess::start_candidate(built->artifact, host);
  }

  static CallResult call(HostProcess& host) {
    TensorView view;
    view.data = host.arena();
    return host.call(std::span<const TensorView>(&view, 1), {}, 1);
  }

  // The middle latency of so many calls; ends at a failure.
  double median(const std::string& body, int calls, const Defences& defences = {}) {
    auto started = start(body, defences);
    if (!started) {
      ADD_FAILURE() << started.error().detail;
      return 0;
    }
    std::vector<double> latencies;
    HostProcess host = std::move(*started);
    for (int i = 0; i < calls; ++i) {
      const CallResult result = call(host);
      if (!result) {
        ADD_FAILURE() << result.error().detail;
        return 0;
      }
      latencies.push_back(result->latency);
    }
    hidden_ = host.hidden();
    hand_shake_ = host.hand_shake();
    return stats::median(latencies);
  }

  Result<TempDir> directory_ = TempDir::create("ridge-clock");
  std::vector<int> all_;
  double hidden_ = 0, hand_shake_ = 0;
};

TEST_F(Clock, AKernelThatServesItselfGainsNoMoreThanIsCharged) {
  const std::string honest = kHonest, truthful = serves_itself(1);
  double least = 1e9;  // of several tries: a neighbour can slow one down
  for (int attempt = 0; attempt < 5 && least > 0; ++attempt) {
    const double ours = median(honest, 101), its = median(truthful, 101);
    RecordProperty("hidden_us", std::to_string(1e6 * hidden_));
    RecordProperty("hand_shake_us", std::to_string(1e6 * hand_shake_));
    RecordProperty("gain_us", std::to_string(1e6 * (ours - its)));
    least = std::min(least, ours - its - hidden_ - 0.01 * ours);
  }
  EXPECT_LE(least, 0) << "seconds gained beyond what a session charges and 1 %";
}

TEST_F(Clock, AForgedSpanIsACheatAndLowersNothing) {
  const std::string forged = serves_itself(4);
  auto started = start(forged);
  ASSERT_TRUE(started.ok()) << started.error().detail;
  HostProcess host = std::move(*started);
  std::optional<Failure> failure;
  for (int i = 0; i < 100 && !failure; ++i) {
    const CallResult result = call(host);
    if (!result) {
      failure = result.error();
    } else {
      EXPECT_GT(result->latency, 2 * result->span) << "call " << i;
    }
  }
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->gate, Gate::kClock) << failure->detail;
}

TEST_F(Clock, WithoutTheDefenceAForgedSpanWins) {
  const std::string forged = serves_itself(4);
  const Defences none = Defences().without(Gate::kClock);
  EXPECT_LT(2 * median(forged, 51, none), median(kHonest, 51, none));
}

TEST_F(Clock, AnHonestKernelIsNeverCalledACheat) {
  auto started = start(kHonest);
  ASSERT_TRUE(started.ok()) << started.error().detail;
  HostProcess host = std::move(*started);
  for (int i = 0; i < 2000; ++i) {
    const CallResult result = call(host);
    ASSERT_TRUE(result.ok()) << result.error().detail;
  }
  EXPECT_TRUE(host.finish().ok());
}

}  // namespace
}  // namespace ridge::evaluate
