// bench, calibrate and evaluate on the processor of this machine, through the real worker code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "evaluate/run.h"
#include "kernels.h"
#include "places.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;
using testing::gemm;
using ::testing::HasSubstr;

record::WorkerRequest request_of(record::WorkerTask task) {
  static const Result<TempDir> directory = TempDir::create("ridge-test");
  record::WorkerRequest request;
  request.task = task;
  request.cases = {*record::parse_case("gemm m=33 n=40 k=21")};
  request.cache_directory = directory->path();
  request.protocol.call_timeout = 2;
  request.protocol.memory_limit_mib = 256;
  request.protocol.max_foreign_load = request.protocol.max_steal = 1;  // beside other tests
  return request;
}

record::WorkerResponse run(const record::WorkerRequest& request) {
  const RunContext context{binary_dir() / "bin" / "ridge-host", {}};
  return run(request, context);
}

const record::BenchRow* row_of(const record::WorkerResponse& response, std::string_view subject) {
  for (const record::BenchRow& row : response.bench) {
    if (row.subject == subject) return &row;
  }
  ADD_FAILURE() << "no row of " << subject;
  return nullptr;
}

record::Candidate named(record::Candidate candidate, std::string name) {
  candidate.name = std::move(name);
  return candidate;
}

TEST(Bench, ManySubjectsShareTheirSessionsAndAreComparedWithOne) {
  record::WorkerRequest request = request_of(record::WorkerTask::kBench);
  request.implementations = {"cpu_simd"};
  request.candidates = {named(gemm(), "plain"), named(gemm("/* other */"), "copy")};
  request.versus = "plain";
  request.samples = 24;
  const record::WorkerResponse response = run(request);
  ASSERT_EQ(response.error, "");
  ASSERT_EQ(response.bench.size(), 3u);
  EXPECT_EQ(response.bench[0].subject, "plain");
  EXPECT_EQ(*response.bench[0].ratio, 1.0);
  for (const record::BenchRow& row : response.bench) {
    EXPECT_EQ(row.outcome, Outcome::kPass) << row.detail;
    EXPECT_GE(row.samples.size(), 24u);
    EXPECT_EQ(row.samples.size(), response.bench[0].samples.size());
    EXPECT_GE(row.sessions, 6);
    EXPECT_LE(row.min, row.p10);
    EXPECT_LE(row.p10, row.median);
    EXPECT_LE(row.median, row.p90);
    EXPECT_LE(*row.ratio_low, *row.ratio);
    EXPECT_LE(*row.ratio, *row.ratio_high);
  }
  EXPECT_TRUE(response.environment->facts.contains("cpu.model"));
}

TEST(Bench, TheLibrarysImplementationsBesideACandidateWithoutItsReferences) {
  record::WorkerRequest request = request_of(record::WorkerTask::kBench);
  request.candidates = {named(gemm(), "the best kernel")};
  request.versus = "the best kernel";
  request.all_implementations = true;
  request.samples = 8;
  const record::WorkerResponse response = run(request);
  ASSERT_EQ(response.error, "");
  const record::BenchRow* simd = row_of(response, "cpu_simd");
  ASSERT_NE(simd, nullptr);
  EXPECT_TRUE(simd->ratio.has_value());
  for (const record::BenchRow& row : response.bench) EXPECT_NE(row.subject, "reference");
}

TEST(Bench, ACaseOutsideTheScopeOfACandidateIsARowThatSaysSo) {
  record::WorkerRequest request = request_of(record::WorkerTask::kBench);
  request.cases.push_back(*record::parse_case("gemm m=33 n=40 k=21 dtype=bf16"));
  request.candidates = {named(gemm("/* ridge-scope\ndtype = [\"f32\"]\n*/\n"), "mine")};
  request.samples = 8;
  const record::WorkerResponse response = run(request);
  ASSERT_EQ(response.bench.size(), 2u) << response.error;
  EXPECT_EQ(response.bench[0].outcome, Outcome::kPass) << response.bench[0].detail;
  EXPECT_EQ(response.bench[1].outcome, Outcome::kNotClaimed);
  EXPECT_THAT(response.bench[1].detail, HasSubstr("dtype=bf16 is outside its scope"));
}

// What the checker says of the first wrong element holds values of the inputs.
TEST(Bench, AFixedSeedRepeatsTheInputsOfARunAndAnotherOneDoesNot) {
  const auto detail_with = [](std::optional<std::int64_t> seed) {
    record::WorkerRequest request = request_of(record::WorkerTask::kBench);
    request.candidates = {named(gemm({}, {}, "for (int64_t j = 0; j < n; ++j) c[j] *= 1.5f;"), "wrong")};
    request.samples = 8;
    request.seed = seed;
    const record::WorkerResponse response = run(request);
    EXPECT_EQ(response.bench.at(0).outcome, Outcome::kWrong) << response.bench.at(0).detail;
    return response.bench.at(0).detail;
  };
  EXPECT_EQ(detail_with(7), detail_with(7));
  EXPECT_NE(detail_with(7), detail_with(8));
  EXPECT_NE(detail_with(std::nullopt), detail_with(std::nullopt));
}

TEST(Bench, OneSubjectThatFailsDoesNotTakeTheOthersDown) {
  record::WorkerRequest request = request_of(record::WorkerTask::kBench);
  request.candidates = {named(gemm(), "honest"), named(gemm({}, "*(volatile int*)8 = 1;"), "crashes"),
                        named(gemm("int x = nonsense;"), "broken"),
                        named(gemm({}, {}, "((float*)call->operands[2].data)[0] = 1e30f;"), "wrong")};
  request.samples = 8;
  const record::WorkerResponse response = run(request);
  ASSERT_EQ(response.bench.size(), 4u);
  EXPECT_EQ(row_of(response, "honest")->outcome, Outcome::kPass);
  EXPECT_EQ(row_of(response, "crashes")->outcome, Outcome::kCrash);
  EXPECT_EQ(row_of(response, "broken")->outcome, Outcome::kCompile);
  EXPECT_EQ(row_of(response, "wrong")->outcome, Outcome::kWrong);
  EXPECT_TRUE(row_of(response, "wrong")->samples.empty());  // a wrong result has no time
}

TEST(Bench, BeatingTheComputeCeilingIsAnAuditError) {
  record::WorkerRequest request = request_of(record::WorkerTask::kBench);
  request.implementations = {"cpu_simd"};
  request.samples = 4;
  request.ceilings = {{"fma_f32", "FLOP/s", 1, 1e6, {1e6}, "far too low"},
                      {"read_bandwidth", "B/s", 1, 1e12, {1e12}, "test"},
                      {"copy_bandwidth", "B/s", 1, 1e12, {1e12}, "test"}};
  const record::WorkerResponse response = run(request);
  ASSERT_EQ(response.bench.size(), 1u);
  EXPECT_EQ(response.bench[0].outcome, Outcome::kHarnessFault);
  EXPECT_THAT(response.bench[0].detail, HasSubstr("audit"));
}

TEST(Bench, NegativeEffortIsRefused) {
  record::WorkerRequest request = request_of(record::WorkerTask::kBench);
  request.samples = -1;
  EXPECT_THAT(run(request).error, HasSubstr("samples = -1"));
}

std::int64_t usable(const record::WorkerResponse& response) {
  return std::count_if(response.sessions.begin(), response.sessions.end(),
                       [](const record::Session& session) { return !session.voided; });
}

TEST(Calibrate, RunsSessionsOfExactlyTheRequestedSizeWithTheirGuards) {
  record::WorkerRequest request = request_of(record::WorkerTask::kCalibrate);
  request.incumbent = gemm();
  request.sessions = 3;
  request.protocol.max_quads = 2;
  request.protocol.max_launches = 3;
  const record::WorkerResponse response = run(request);
  ASSERT_EQ(response.error, "");
  ASSERT_TRUE(usable(response) == 3 || response.sessions.size() == 6) << response.sessions.size();
  for (const record::Session& session : response.sessions) {
    EXPECT_EQ(session.role, "calibrate");
    ASSERT_EQ(session.shapes[0].quads.size(), 2u);
    EXPECT_EQ(session.shapes[0].quads[0].blocks[0].size(), 3u);
    for (const char* guard : {"clock_gap", "steal_fraction", "foreign_load", "witness_gap_max", "wall", "sandbox"}) {
      EXPECT_TRUE(session.guards.contains(guard)) << guard;
    }
    EXPECT_GT(session.guards.at("clock_incumbent"), 0);
  }
}

TEST(Calibrate, AnImplementationCanBeMeasuredAgainstItselfToo) {
  record::WorkerRequest request = request_of(record::WorkerTask::kCalibrate);
  request.implementations = {"cpu_simd"};
  request.sessions = 1;
  request.protocol.max_quads = request.protocol.max_launches = 1;
  const record::WorkerResponse response = run(request);
  EXPECT_TRUE(usable(response) == 1 || response.sessions.size() == 2) << response.error;
  request.implementations.clear();
  EXPECT_THAT(run(request).error, HasSubstr("needs an incumbent"));
}

TEST(Calibrate, VoidSessionsAreRepeatedButNotForEver) {
  record::WorkerRequest request = request_of(record::WorkerTask::kCalibrate);
  request.implementations = {"cpu_simd"};
  request.sessions = 3;
  request.protocol.max_quads = request.protocol.max_launches = 1;
  request.protocol.decision_rule = record::Protocol::kVoiding;
  request.protocol.max_clock_gap = -1;
  const record::WorkerResponse response = run(request);
  EXPECT_EQ(usable(response), 0);
  EXPECT_EQ(response.sessions.size(), 6u);
}

// By the first rule the limit on the gap between the arms' clocks is the protocol's: at zero every session is void, and
// void sessions end in AMBIGUOUS, never in a number.
TEST(Evaluate, AClockGapBeyondTheProtocolVoidsByTheFirstRuleAndEndsAmbiguous) {
  record::WorkerRequest request = request_of(record::WorkerTask::kEvaluate);
  request.incumbent = named(gemm({}, "for (volatile int i = 0; i < 300000; i = i + 1) {}"), "slow");
  request.candidates = {gemm()};
  request.protocol.decision_rule = record::Protocol::kVoiding;
  request.protocol.max_clock_gap = -1;
  request.protocol.max_sessions = 13;
  request.protocol.max_void_fraction = 0.1;
  const record::WorkerResponse response = run(request);
  ASSERT_TRUE(response.evaluation.has_value()) << response.error;
  EXPECT_EQ(response.evaluation->outcome, Outcome::kAmbiguous);
  EXPECT_THAT(response.evaluation->detail, HasSubstr("clock_gap"));
  EXPECT_TRUE(response.evaluation->sessions.back().voided);
}

// By the second rule the same sessions count, each charged for its gap.
TEST(Evaluate, AClockGapIsChargedAndVoidsNothing) {
  record::WorkerRequest request = request_of(record::WorkerTask::kEvaluate);
  request.incumbent = named(gemm({}, "for (volatile int i = 0; i < 3000000; i = i + 1) {}"), "slow");
  request.candidates = {gemm()};
  request.protocol.max_clock_gap = request.protocol.max_steal = request.protocol.max_foreign_load = 0;
  const record::WorkerResponse response = run(request);
  ASSERT_TRUE(response.evaluation.has_value()) << response.error;
  EXPECT_EQ(response.evaluation->outcome, Outcome::kPass) << response.evaluation->detail;
  for (const record::Session& session : response.evaluation->sessions) EXPECT_FALSE(session.voided);
  EXPECT_THAT(response.evaluation->detail, HasSubstr("charged for a gap between the arms' clocks"));
}

}  // namespace
}  // namespace ridge::evaluate
