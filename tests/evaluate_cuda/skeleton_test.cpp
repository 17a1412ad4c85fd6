// The operator to copy, through the whole rig of a GPU: its kernels pass, and candidates that are wrong in one way each
// do not. Its check is made of a row model; it has a real parameter, a scalar of the call, and an input with a range.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "device/cuda/backend.h"
#include "evaluate/run.h"
#include "ops/op.h"
#include "places.h"

namespace ridge::ops {
std::span<const Operator> skeleton_operators();  // generated, see tests/skeleton_op
}

namespace ridge::evaluate {
namespace {

using record::Outcome;

constexpr const char* kSource = R"cu(/* ridge-launch
[[kernel]]
symbol = "candidate"
grid = ["ceil_div(n, 256)"]
block = [256]
args = [{{ operand = "x" }}, {{ operand = "gain" }}, {{ operand = "y" }}, {{ f32 = "alpha" }}, {{ f32 = "{}" }},
        {{ i64 = "n" }}]
*/
__device__ float kept[4096];
extern "C" __global__ void candidate(const float* x, const float* gain, float* y, float alpha, float beta, long long n) {{
  const long long i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {{ {} }}
}}
)cu";

// Asked in a process of its own: one that has opened the driver can fork none that uses it.
bool there_is_a_gpu() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(device::cuda::list_gpus() ? 0 : 1);
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

class SkeletonOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    ops::add_operators(ops::skeleton_operators());
    if (!there_is_a_gpu()) GTEST_SKIP() << "no GPU that the driver lists";
    auto directory = TempDir::create("ridge-skeleton");
    ASSERT_TRUE(directory);
    directory_.emplace(std::move(*directory));
  }

  record::CheckRow check(const std::string& words, record::WorkerRequest request = {}) {
    request.task = record::WorkerTask::kCheck;
    request.backend = "cuda";
    request.cases = {*record::parse_case(words)};
    request.cache_directory = directory_->path();
    request.protocol.call_timeout = 5;
    const record::WorkerResponse response = run(request, {binary_dir() / "bin" / "ridge-host", {}});
    EXPECT_EQ(response.error, "");
    if (response.checks.size() != 1 || response.checks[0].rows.size() != 1) {
      ADD_FAILURE() << "not one row of one subject";
      return {};
    }
    return response.checks[0].rows[0];
  }
  // A kernel of scale: what its plan gives for beta, and what its thread i < n does.
  record::CheckRow check_candidate(const std::string& beta, const std::string& body) {
    record::WorkerRequest request;
    record::Candidate candidate;
    candidate.op = "scale";
    candidate.name = "scale";
    candidate.backend = "cuda";
    candidate.sources = {{"kernel.cu", fmt::format(kSource, beta, body)}};
    request.candidates = {candidate};
    return check("scale n=1000 alpha=-0.37 gain=1 top=0", std::move(request));
  }

  std::optional<TempDir> directory_;
};

TEST_F(SkeletonOnDevice, KernelsOfBothDirectionsPass) {
  for (const char* words :
       {"scale n=1000 alpha=-0.37 gain=1 top=0", "scale_backward n=1000 alpha=-0.37 gain=1 wanted=both",
        "scale_backward n=777 alpha=3 gain=0 wanted=dx"}) {
    record::WorkerRequest request;
    request.implementations = {"cuda_vector"};
    const record::CheckRow row = check(words, std::move(request));
    EXPECT_EQ(row.outcome, Outcome::kPass) << words << ": " << row.detail;
  }
}

TEST_F(SkeletonOnDevice, AnHonestCandidatePassesAndMutantsDoNot) {
  const std::string right = "y[i] = alpha * gain[i] * x[i] + beta;";
  const record::CheckRow honest = check_candidate("beta", right);
  EXPECT_EQ(honest.outcome, Outcome::kPass) << honest.detail;
  const std::pair<const char*, std::pair<std::string, std::string>> mutants[] = {
      {"the usual scalar", {"0 * alpha", right}},
      {"another real parameter", {"beta", "y[i] = -0.3701f * gain[i] * x[i] + beta;"}},
      {"one element", {"beta", right + " if (i == 500) y[i] += 0.01f;"}},
      {"the last element left out", {"beta", "if (i < n - 1) " + right}},
      {"a NaN", {"beta", right + " if (i == 3) y[i] = __int_as_float(0x7fc00000);"}},
      {"two elements swapped",
       {"beta", "const long long j = i == 7 ? 8 : i == 8 ? 7 : i; y[i] = alpha * gain[j] * x[j] + beta;"}},
      {"the output of an earlier launch",
       {"beta", "if (kept[i] == 0) kept[i] = alpha * gain[i] * x[i] + beta; y[i] = kept[i];"}}};
  for (const auto& [name, mutant] : mutants) {
    const record::CheckRow row = check_candidate(mutant.first, mutant.second);
    EXPECT_EQ(row.outcome, Outcome::kWrong) << name << ": " << row.detail;
  }
}

}  // namespace
}  // namespace ridge::evaluate
