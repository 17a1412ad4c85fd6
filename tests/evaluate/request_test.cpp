// Requests that cannot be done, and faults that are ours: never the candidate's. What candidates do is in tests/cheats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "evaluate/run.h"
#include "places.h"

namespace ridge::evaluate {
namespace {

using ::testing::HasSubstr;

record::WorkerRequest check_request() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.implementations = {"cpu_simd"};
  request.cases = {*record::parse_case("gemm m=33 n=40 k=21")};
  return request;
}

record::WorkerResponse answer(const record::WorkerRequest& request) {
  return run(request, {binary_dir() / "bin" / "ridge-host", {}});
}

TEST(Request, OfAnUnknownOperatorOrShapeNamesTheValue) {
  record::WorkerRequest request = check_request();
  request.cases = {*record::parse_case("gmm m=1")};
  EXPECT_THAT(answer(request).error, HasSubstr("gmm"));
  request.cases = {*record::parse_case("gemm m=-4")};
  EXPECT_THAT(answer(request).error, HasSubstr("-4"));
  request.cases = {};
  EXPECT_THAT(answer(request).error, HasSubstr("no case"));
}

TEST(Request, WithoutAHostProgramIsAFaultOfTheHarness) {
  const Result<TempDir> directory = TempDir::create("ridge-test");
  ASSERT_TRUE(directory.ok());
  record::WorkerRequest request = check_request();
  record::Candidate candidate;
  candidate.sources = {
      {"k.cpp", "#include \"ridge/candidate.h\"\nint ridge_kernel(const ridge_call*) { return 0; }\n"}};
  request.implementations = {};
  request.candidates = {candidate};
  request.cache_directory = directory->path().string();
  const record::WorkerResponse response = run(request, {"/nonexistent/ridge-host", {}});
  ASSERT_EQ(response.checks.size(), 1u);
  EXPECT_EQ(response.checks[0].rows[0].outcome, record::Outcome::kHarnessFault);
  EXPECT_THAT(response.checks[0].rows[0].detail, HasSubstr("/nonexistent/ridge-host"));
}

TEST(Request, ToCheckAnImplementationSaysWhatWasLookedAt) {
  const record::WorkerResponse response = answer(check_request());
  ASSERT_EQ(response.checks.size(), 1u) << response.error;
  const record::CheckRow& row = response.checks[0].rows[0];
  EXPECT_EQ(row.outcome, record::Outcome::kPass) << row.detail;
  EXPECT_EQ(row.lanes.at("rerun"), "same bits");
  EXPECT_THAT(row.lanes.at("families"), HasSubstr("denormals"));
  EXPECT_THAT(row.lanes.at("held-out"), HasSubstr("dtype=f32"));
  EXPECT_FALSE(row.lanes.contains("sanitizer")) << "there is no source to build again";
  EXPECT_LT(row.max_error_ratio, 1.0);
  EXPECT_GT(row.verified_calls, 20);
}

}  // namespace
}  // namespace ridge::evaluate
