// The tables of a campaign about an operator that is no matrix product: its own parameters, and bytes over time where
// memory bounds it.
#include "campaign/columns.h"

#include <gmock/gmock.h>

#include "campaign/export.h"
#include "campaign/files.h"
#include "campaign/foreign.h"
#include "campaign/quick_script.h"
#include "campaign/render.h"
#include "campaign/verify.h"
#include "report/report.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kSizes = {"rows=4096 cols=4096 scaling=row", "rows=8192 cols=4096 scaling=row"};

record::CampaignSpec quantize_spec() {
  record::CampaignSpec spec = make_spec();
  spec.id = "quantize_cpu_test_20260101";
  spec.op = "quantize";
  spec.target_cases.clear();
  for (const std::string& size : kSizes) spec.target_cases.push_back(*record::parse_case("quantize " + size));
  return spec;
}

record::Candidate quantize(std::int64_t speed) {
  record::Candidate candidate = make_candidate(speed);
  candidate.op = "quantize";
  return candidate;
}

// What the scripted worker says, with the work of a kernel that moves bytes: 100 of them and 1 FLOP in the same time.
WorkerResponse bound_by(const char* bound, WorkerResponse response) {
  if (!response.evaluation) return response;
  for (record::RooflinePoint& point : response.evaluation->roofline) {
    point.bound = bound;
    point.cost = {point.bound_time * 1e9, point.bound_time * 1e11};
  }
  return response;
}

class Columns : public testing::Test {
 protected:
  void run(const char* bound) {
    world.baseline = quantize(100);
    world.executor.on(WorkerTask::kEvaluate,
                      [bound](const WorkerRequest& request) { return bound_by(bound, evaluate(request)); });
    const Result<RunResult> done = world.run();
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(done->end, RunEnd::kDone) << done->reason;
    ASSERT_EQ(world.state().incumbent.round, 2);
  }
  std::string file(const std::string& path) { return read_file(world.path() / path).value(); }
  std::string report() { return report::markdown(report::load(world.path()).value()); }

  World world{one_per_round({make_proposal({quantize(200)}), make_proposal({quantize(120)}, "SLOWER")}),
              quantize_spec()};
};

TEST_F(Columns, TheQuickScriptHasTheHeaderAndTheShapesOfTheTables) {
  run("memory");
  const std::string script = file(kQuickScript), csv = file("rounds/round-1/artifacts/benchmark.csv");
  EXPECT_THAT(script, HasSubstr("OP = \"quantize\"\n"));
  EXPECT_THAT(script, HasSubstr("COLUMNS = \"" + csv.substr(0, csv.find("\r\n")) + "\".split"));
  for (const char* rows : {"4096", "8192"}) {
    EXPECT_THAT(script, HasSubstr(fmt::format("    \"rows={0} cols=4096 scaling=row\": {{\"rows\": \"{0}\", \"cols\": "
                                              "\"4096\", \"scaling\": \"row\"}},\n",
                                              rows)));
  }
  EXPECT_TRUE(verify_campaign(world.path())->ok());
  EXPECT_FALSE(render_export(world.state(), *export_format("turbo-view"))->files.contains(kQuickScript));
  ASSERT_TRUE(write_file_durably(world.path() / kQuickScript, script + "#"));
  EXPECT_FALSE(verify_campaign(world.path())->ok());
}

TEST_F(Columns, AMemoryBoundCampaignHasItsOperatorsParametersAndBytes) {
  run("memory");
  const std::string csv = file("rounds/round-2/artifacts/benchmark.csv");
  EXPECT_TRUE(
      csv.starts_with("label,rows,cols,scaling,Check,Forward TFLOPS,Forward TFLOPS_stddev,Forward GB/s,"
                      "Forward GB/s_stddev,Forward Time (ms),out_snr\r\nrows=4096 cols=4096 scaling=row,4096,"
                      "4096,row,PASS,"))
      << csv;
  // The baseline takes ten times its bound, in which it would move 100 GB/s.
  EXPECT_THAT(file("rounds/round-1/summary.md"),
              HasSubstr("| Shape / label | rows | cols | scaling | Result | Forward GB/s | Backward GB/s |"));
  EXPECT_THAT(file("rounds/round-1/summary.md"),
              HasSubstr("| rows=4096 cols=4096 scaling=row | 4096 | 4096 | row | PASS | 10.0"));
  EXPECT_THAT(file("logs/optimize.md"), HasSubstr("GB/s (geomean)"));
  EXPECT_THAT(file("logs/optimize.md"), HasSubstr("| Shape | Time (ms) | GB/s | Of ceiling |"));
  EXPECT_THAT(file("logs/performance_trend.md"), HasSubstr("| Fwd Avg GB/s | Fwd Peak GB/s |"));
  EXPECT_THAT(report(), HasSubstr("- From 10.00 GB/s to 20.0 GB/s, geometric mean over 2 shapes."));
  EXPECT_THAT(report(), HasSubstr("| B | rows=8192 | 10.00 GB/s (100 µs) | 20.0 GB/s (50.0 µs) |"));
  for (const char* path : {"rounds/round-2/summary.md", "logs/optimize.md", "logs/performance_trend.md"}) {
    EXPECT_THAT(file(path), Not(HasSubstr("TFLOPS"))) << path;
    EXPECT_THAT(file(path), Not(HasSubstr("| M |"))) << path;
  }
  const auto verified = verify_campaign(world.path());
  ASSERT_TRUE(verified) << verified.error().text();
  EXPECT_TRUE(verified->ok()) << verified->text();
  for (const LintFinding& one : lint_foreign(world.path())->findings) {  // its trend is in GB/s, its tables have both
    EXPECT_NE(one.kind, LintKind::kContradiction) << one.path << ": " << one.what;
  }
}

TEST_F(Columns, WhatArithmeticBoundsIsInFlopOverTimeWhateverTheOperator) {
  run("compute");
  EXPECT_THAT(file("rounds/round-1/summary.md"), HasSubstr("| scaling | Result | Forward TFLOPS |"));
  EXPECT_THAT(report(), HasSubstr("MFLOP/s to 200 MFLOP/s, geometric mean over 2 shapes."));
}

// The viewer has columns for products only; it shows dashes for what it is not given.
TEST_F(Columns, TheExportForTheViewerNamesNoSizesThatTheOperatorLacks) {
  run("memory");
  const auto files = render_export(world.state(), *export_format("turbo-view"));
  ASSERT_TRUE(files) << files.error().text();
  EXPECT_THAT(files->files.at("rounds/round-2/artifacts/benchmark.csv"), HasSubstr("\r\nrows=4096,,,,,PASS,120,,,"));
  EXPECT_THAT(files->files.at("logs/performance_trend.md"), HasSubstr("| Step Geomean TFLOPS |"));
}

TEST(ColumnsOfCases, AreThoseOfOtherPeoplesToolsForAProduct) {
  const auto titles = [](const std::string& text) {
    std::string all;
    for (const ShapeColumn& column : shape_columns({*record::parse_case(text)})) all += column.title + " ";
    return all;
  };
  EXPECT_EQ(titles("gemm m=1 n=2 k=3 dtype=f32"), "M N K ");
  EXPECT_EQ(titles("attention m=1 n=2 dim=3"), "m n dim ");
  EXPECT_EQ(benchmark_header({*record::parse_case("gemm m=1 n=2 k=3")}), benchmark_header({}));
}

}  // namespace
}  // namespace ridge::campaign::test
