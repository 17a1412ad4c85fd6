// Every way a candidate can fail, or try to be taken for better than it is, ends in the right outcome with words that
// name what happened; an honest kernel passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "evaluate/run.h"
#include "kernels.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;
using testing::gemm;
using ::testing::HasSubstr;

std::filesystem::path host() { return std::filesystem::path(RIDGE_BINARY_DIR) / "bin" / "ridge-host"; }

const std::filesystem::path& cache() {
  static const Result<TempDir> directory = TempDir::create("ridge-test");
  return directory->path();
}

record::WorkerRequest request_of(record::WorkerTask task, const record::Candidate& candidate) {
  record::WorkerRequest request;
  request.task = task;
  request.candidates = {candidate};
  request.cases = {*record::parse_case("gemm m=33 n=40 k=21")};
  request.cache_directory = cache();
  request.protocol.call_timeout = 0.5;
  request.protocol.memory_limit_mib = 256;
  return request;
}

record::CheckRow check(const record::Candidate& candidate) {
  const record::WorkerResponse response = run(request_of(record::WorkerTask::kCheck, candidate), {host(), {}});
  EXPECT_EQ(response.error, "");
  if (response.checks.empty() || response.checks[0].rows.empty()) return {};
  return response.checks[0].rows[0];
}

void expect(const record::CheckRow& row, Outcome outcome, const std::string& words) {
  EXPECT_EQ(row.outcome, outcome) << row.detail;
  EXPECT_THAT(row.detail, HasSubstr(words));
}

TEST(Fault, NoneInAnHonestKernel) {
  const record::CheckRow row = check(gemm());
  EXPECT_EQ(row.outcome, Outcome::kPass) << row.detail;
  EXPECT_EQ(row.verified_calls, 4);
  EXPECT_LT(row.max_error_ratio, 1.0);
}

TEST(Fault, DoesNotCompile) { expect(check(gemm("int x = nonsense;")), Outcome::kCompile, "kernel.cpp:3:"); }

TEST(Fault, Crashes) { expect(check(gemm({}, "*(volatile int*)8 = 1;")), Outcome::kCrash, "Segmentation fault"); }

TEST(Fault, Hangs) { expect(check(gemm({}, "for (volatile int i = 0;;) i = i + 1;")), Outcome::kHang, "0.5 s"); }

TEST(Fault, HangsWhileLoading) {
  expect(check(gemm("__attribute__((constructor)) static void f() { for (volatile int i = 0;;) i = i + 1; }")),
         Outcome::kHang, "0.5 s");
}

TEST(Fault, AllocatesWithoutEnd) {
  expect(check(gemm("#include <vector>\nstatic std::vector<char*> all;",
                    "for (;;) { char* p = new char[1 << 24]; for (int i = 0; i < 1 << 24; i += 4096) p[i] = 1; "
                    "all.push_back(p); }")),
         Outcome::kOom, "256 MiB");
}

TEST(Fault, EndsItsProcessWithCodeZero) {
  expect(check(gemm("#include <unistd.h>", {}, "_exit(0);")), Outcome::kCrash, "exit code 0");
}

TEST(Fault, ReturnsAnError) { expect(check(gemm({}, {}, "return 7;")), Outcome::kCrash, "returned 7"); }

TEST(Fault, WritesPastTheEnd) {
  expect(check(gemm({}, {}, "c[(m - 1) * call->operands[2].stride[0] + n] = 1;")), Outcome::kWrong,
         "past the end of c");
}

TEST(Fault, WritesIntoRowPadding) {
  expect(check(gemm({}, {}, "if (m > 1) c[n] = 1;")), Outcome::kWrong, "padding of c");
}

TEST(Fault, ChangesAnInput) {
  expect(check(gemm({}, {}, "a[2 * call->operands[0].stride[0] + 3] += 1;")), Outcome::kWrong,
         "changed its input a[2, 3]");
}

TEST(Fault, LeavesTheOutputUntouched) { expect(check(gemm({}, "return 0;")), Outcome::kWrong, "not written at all"); }

TEST(Fault, LeavesOneElementUnwritten) {
  expect(check(gemm({}, "float keep = c[5];", "c[5] = keep;")), Outcome::kWrong, "c[0, 5]");
}

TEST(Fault, ReturnsNaN) {
  expect(check(gemm({}, {}, "c[7] = __builtin_nanf(\"\");")), Outcome::kWrong, "c[0, 7] = nan");
}

TEST(Fault, IsWrongByOnePerCent) { expect(check(gemm({}, {}, "c[9] *= 1.01f;")), Outcome::kWrong, "c[0, 9]"); }

TEST(Fault, DropsTheLastTerm) {
  expect(check(gemm({}, "const int64_t kk = k; (void)kk; product(a, b, c, call, m, n, k - 1); return 0;")),
         Outcome::kWrong, "elements are wrong");
}

TEST(Fault, OpensASocket) {
  expect(check(gemm("#include <sys/socket.h>", "socket(AF_INET, SOCK_STREAM, 0);")), Outcome::kCheat, "socket");
}

TEST(Fault, StartsAProgram) {
  expect(check(gemm("#include <unistd.h>", "execl(\"/bin/true\", \"true\", (char*)0);")), Outcome::kCheat, "execve");
}

TEST(Fault, Forks) { expect(check(gemm("#include <unistd.h>", "fork();")), Outcome::kCheat, "clone"); }

TEST(Fault, WritesAFile) {
  expect(check(gemm("#include <fcntl.h>", "open(\"/tmp/ridge-escape\", O_WRONLY | O_CREAT, 0600);")), Outcome::kCheat,
         "openat");
  EXPECT_FALSE(std::filesystem::exists("/tmp/ridge-escape"));
}

TEST(Fault, ReadsAFileInVain) {
  EXPECT_EQ(check(gemm("#include <fcntl.h>", "if (open(\"/etc/passwd\", O_RDONLY) >= 0) return 1;")).outcome,
            Outcome::kPass);
}

TEST(Fault, SignalsTheHarness) {
  expect(check(gemm("#include <signal.h>\n#include <unistd.h>", "kill(1, 9);")), Outcome::kCheat, "kill");
}

TEST(Fault, MakesCodeExecutable) {
  expect(check(gemm("#include <sys/mman.h>",
                    "mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);")),
         Outcome::kCheat, "mmap");
}

// The results of the first call again in every later one of the same process.
TEST(Fault, ReturnsStaleOutputOnLaterCalls) {
  record::WorkerRequest request = request_of(
      record::WorkerTask::kScreen,
      gemm("#include <string.h>\nstatic float kept[33 * 40]; static int calls;",
           "if (calls++ > 0) { for (int64_t i = 0; i < m; ++i) memcpy(c + i * call->operands[2].stride[0], kept + i * "
           "n, n * 4); return 0; }",
           "for (int64_t i = 0; i < m; ++i) memcpy(kept + i * n, c + i * call->operands[2].stride[0], n * 4);"));
  const record::WorkerResponse response = run(request, {host(), {}});
  ASSERT_EQ(response.screen.size(), 1u);
  EXPECT_EQ(response.screen[0].outcome, Outcome::kWrong);
  EXPECT_THAT(response.screen[0].detail, HasSubstr("previous call"));
}

// A thread that does the work after the call has returned: the output is taken before it is done.
TEST(Fault, FinishesInABackgroundThread) {
  const record::CheckRow row = check(gemm(
      "#include <thread>\n#include <unistd.h>",
      "static ridge_tensor t[3]; for (int i = 0; i < 3; ++i) t[i] = call->operands[i]; static ridge_call copy; copy = "
      "*call;"
      "copy.operands = t; std::thread([=] { usleep(3000); product(a, b, c, &copy, m, n, k); }).detach(); return 0;"));
  EXPECT_EQ(row.outcome, Outcome::kWrong) << row.detail;
}

// Right results, then a thread that goes on computing: unpaid work.
TEST(Fault, WorksOnAfterReturning) {
  record::WorkerRequest request =
      request_of(record::WorkerTask::kScreen,
                 gemm("#include <thread>", {},
                      "std::thread([] { for (volatile int i = 0; i < 50000000;) i = i + 1; }).detach();"));
  const record::WorkerResponse response = run(request, {host(), {}});
  ASSERT_EQ(response.screen.size(), 1u);
  EXPECT_EQ(response.screen[0].outcome, Outcome::kCheat) << response.screen[0].detail;
  EXPECT_THAT(response.screen[0].detail, HasSubstr("processor time"));
}

TEST(Fault, OfAnUnknownOperatorOrShapeNamesTheValue) {
  record::WorkerRequest request = request_of(record::WorkerTask::kCheck, gemm());
  request.cases = {*record::parse_case("gmm m=1")};
  EXPECT_THAT(run(request, {host(), {}}).error, HasSubstr("gmm"));
  request.cases = {*record::parse_case("gemm m=-4")};
  EXPECT_THAT(run(request, {host(), {}}).error, HasSubstr("-4"));
  request.cases = {};
  EXPECT_THAT(run(request, {host(), {}}).error, HasSubstr("no case"));
}

TEST(Fault, OfTheHarnessIsNotTheCandidates) {
  const record::WorkerResponse response =
      run(request_of(record::WorkerTask::kCheck, gemm()), {"/nonexistent/ridge-host", {}});
  ASSERT_FALSE(response.checks.empty());
  expect(response.checks[0].rows[0], Outcome::kHarnessFault, "/nonexistent/ridge-host");
}

}  // namespace
}  // namespace ridge::evaluate
