// Checks of candidates through the real worker code: scopes, declined calls, and checks that are repeated by their
// seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "evaluate/run.h"
#include "evaluate/secrets.h"
#include "kernels.h"
#include "numerics/bias.h"
#include "ops/op.h"
#include "places.h"

namespace ridge::ops {
std::span<const Operator> skeleton_operators();  // generated, see tests/skeleton_op
}

namespace ridge::evaluate {
namespace {

using record::Outcome;
using testing::gemm;
using ::testing::HasSubstr;

constexpr const char* kPlainF32 =
    "/* ridge-scope\ndtype = [\"f32\"]\nlayout = [\"nn\"]\naccumulate = [0]\n"
    "[[needs]]\nexpression = \"k % 2 == 1\"\nreason = \"an odd depth\"\n*/\n";

record::WorkerRequest request_of(std::initializer_list<const char*> cases, record::Candidate candidate) {
  static const Result<TempDir> directory = TempDir::create("ridge-test");
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  for (const char* words : cases) request.cases.push_back(*record::parse_case(std::string("gemm ") + words));
  request.candidates = {std::move(candidate)};
  request.cache_directory = directory->path();
  request.protocol.call_timeout = 2;
  request.protocol.memory_limit_mib = 256;
  return request;
}

record::CheckReport check(const record::WorkerRequest& request) {
  const record::WorkerResponse response = run(request, {binary_dir() / "bin" / "ridge-host", {}});
  EXPECT_EQ(response.error, "");
  return response.checks.empty() ? record::CheckReport() : response.checks[0];
}

// The skeleton's y = alpha * gain * x + beta: a real parameter, a scalar, an exact output.
record::CheckReport check_scale(const std::string& alpha, const std::string& beta, const std::string& top = "top") {
  ops::add_operators(ops::skeleton_operators());
  record::Candidate candidate;
  candidate.op = "scale";
  candidate.name = "scale";
  candidate.sources = {{"kernel.cpp", R"(#include "ridge/candidate.h"
extern "C" int ridge_kernel(const ridge_call* call) {
  const float* x = (const float*)call->operands[0].data;
  const float* gain = (const float*)call->operands[1].data;
  float* y = (float*)call->operands[2].data;
  int64_t top = -1;
  if (call->scalar_count != 1 || call->operands[3].dtype != RIDGE_I64) return 1;
  const float alpha = )" + alpha +
                                          ", beta = " + beta + R"(;
  for (int64_t i = 0; i < call->params[0]; ++i) y[i] = alpha * gain[i] * x[i] + beta;
  for (int64_t i = 0; i < call->params[0]; ++i)
    if (top < 0 || __builtin_fabsf(x[i]) > __builtin_fabsf(x[top])) top = i;
  *(int64_t*)call->operands[3].data = )" + top +
                                          R"(;
  return 0;
}
)"}};
  record::WorkerRequest request = request_of({}, candidate);
  request.cases = {*record::parse_case("scale n=1000 alpha=-0.37 gain=1 top=1")};
  return check(request);
}

TEST(Scalars, ReachACandidateAsDoRealParameters) {
  const record::CheckReport right = check_scale("(float)ridge_real(call, 1)", "call->scalars[0].f32");
  ASSERT_EQ(right.rows.size(), 1u);
  EXPECT_EQ(right.rows[0].outcome, Outcome::kPass) << right.rows[0].detail;
}

TEST(Scalars, ACandidateThatAssumesTheUsualOneOrKeepsTheFirstIsWrong) {
  for (const char* beta : {"0", "([&] { static const float first = call->scalars[0].f32; return first; }())"}) {
    const record::CheckReport report = check_scale("(float)ridge_real(call, 1)", beta);
    ASSERT_EQ(report.rows.size(), 1u);
    EXPECT_EQ(report.rows[0].outcome, Outcome::kWrong) << beta;
  }
  const record::CheckReport rounded = check_scale("-0.370001f", "call->scalars[0].f32");
  EXPECT_EQ(rounded.rows.at(0).outcome, Outcome::kWrong) << "another real parameter";
}

TEST(ExactOutputs, AreEqualOrWrong) {
  for (const char* top : {"top + 1", "0", "-1", "call->params[0] - 1"}) {
    const record::CheckReport report = check_scale("(float)ridge_real(call, 1)", "call->scalars[0].f32", top);
    EXPECT_EQ(report.rows.at(0).outcome, Outcome::kWrong) << top;
  }
}

TEST(Scope, CasesOutsideAreNotClaimedAndTheOthersAreChecked) {
  const record::CheckReport report =
      check(request_of({"m=9 n=8 k=5", "m=9 n=8 k=6", "m=9 n=8 k=5 dtype=bf16"}, gemm(kPlainF32)));
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].outcome, Outcome::kPass) << report.rows[0].detail;
  EXPECT_EQ(report.rows[1].outcome, Outcome::kNotClaimed);
  EXPECT_EQ(report.rows[1].detail, "k % 2 == 1: an odd depth");
  EXPECT_EQ(report.rows[2].outcome, Outcome::kNotClaimed);
  EXPECT_THAT(report.rows[2].detail, HasSubstr("dtype=bf16 is outside its scope (f32)"));
  EXPECT_EQ(report.rows[2].verified_calls, 0);
}

TEST(Scope, ThatNamesWhatTheOperatorDoesNotKnowDoesNotBuild) {
  const auto row = check(request_of({"m=9 n=8 k=5"}, gemm("/* ridge-scope\ndtype = [\"fp6\"]\n*/\n"))).rows.at(0);
  EXPECT_EQ(row.outcome, Outcome::kCompile);
  EXPECT_THAT(row.detail, HasSubstr("fp6"));
}

TEST(Declined, IsNeitherACrashNorAPass) {
  const auto row = check(request_of({"m=9 n=8 k=5"}, gemm({}, "if (k == 5) return 3;"))).rows.at(0);
  EXPECT_EQ(row.outcome, Outcome::kDeclined);
  EXPECT_THAT(row.detail, HasSubstr("ridge_kernel returned 3"));
}

TEST(Declined, ACaseThatItsScopeClaimsIsWrong) {
  const auto row = check(request_of({"m=9 n=8 k=5"}, gemm(kPlainF32, "if (k == 5) return 3;"))).rows.at(0);
  EXPECT_EQ(row.outcome, Outcome::kWrong);
  EXPECT_THAT(row.detail, HasSubstr("its ridge-scope claims"));
}

TEST(Declined, AShapeDrawnInSecretIsNoFailureWithoutAScope) {
  const auto row =
      check(request_of({"m=40 n=40 k=40"}, gemm({}, "if (m != 40 || n != 40 || k != 40) return 3;"))).rows.at(0);
  EXPECT_EQ(row.outcome, Outcome::kPass) << row.detail;
  EXPECT_THAT(row.lanes.at("held-out"), HasSubstr("declined"));
}

// Wrong for few contents: which call fails, and where, follows from the seed alone.
TEST(Seed, RepeatsAFailure) {
  const char* const kRare = "if (((const uint32_t*)a)[0] % 8 == 0) c[0] = c[0] * 1.5f + 1;";
  std::map<std::int64_t, std::string> found;
  for (const std::int64_t seed : {11, 12, 11, 12}) {
    record::WorkerRequest request = request_of({"m=9 n=8 k=5"}, gemm("#include <stdint.h>\n", {}, kRare));
    request.seed = seed;
    const record::CheckRow row = check(request).rows.at(0);
    EXPECT_EQ(row.seed, seed);
    EXPECT_EQ(row.outcome, Outcome::kWrong);
    const auto [first, fresh] = found.emplace(seed, row.detail);
    EXPECT_EQ(row.detail, first->second) << (fresh ? "" : "the same seed");
  }
  EXPECT_NE(found[11], found[12]);
}

TEST(Seed, IsDrawnAndRecordedWhereNoneIsGiven) {
  const auto first = check(request_of({"m=9 n=8 k=5"}, gemm())), second = check(request_of({"m=9 n=8 k=5"}, gemm()));
  EXPECT_NE(first.rows.at(0).seed, second.rows.at(0).seed);
  EXPECT_GT(first.rows[0].seed, 0);
  EXPECT_LT(first.rows[0].seed, std::int64_t{1} << 53);
}

TEST(Seed, ACaseFailsAloneAsItDoesAmongOthers) {
  const char* const kRare = "if (((const uint32_t*)a)[0] % 8 == 0) c[0] = c[0] * 1.5f + 1;";
  record::WorkerRequest both = request_of({"m=5 n=6 k=7", "m=9 n=8 k=5"}, gemm("#include <stdint.h>\n", {}, kRare));
  record::WorkerRequest alone = request_of({"m=9 n=8 k=5"}, both.candidates[0]);
  both.seed = alone.seed = 77;
  EXPECT_EQ(check(both).rows.at(1).detail, check(alone).rows.at(0).detail);
}

TEST(Check, SaysHowOftenSoMuchComparingIsWrongByChance) {
  const record::CheckReport report = check(request_of({"m=9 n=8 k=5"}, gemm()));
  EXPECT_GT(report.rows.at(0).compared, 10);
  EXPECT_EQ(report.rows[0].families, 8);
  EXPECT_DOUBLE_EQ(report.false_alarm_rate, static_cast<double>(report.rows[0].compared) * numerics::kBiasFalseAlarm);
}

TEST(Secrets, FollowFromSeedPurposeAndNumber) {
  Secrets one(5, "case"), same(5, "case"), other(5, "other"), later(6, "case");
  const std::uint64_t first = one.next();
  EXPECT_EQ(first, same.next());
  EXPECT_NE(first, one.next());
  EXPECT_NE(first, other.next());
  EXPECT_NE(first, later.next());
  EXPECT_EQ(one.branch("lane").next(), Secrets(5, "case").branch("lane").next()) << "whatever was drawn before";
}

}  // namespace
}  // namespace ridge::evaluate
