#include "project/project.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"
#include "project/bench_csv.h"

namespace ridge::project {
namespace {

const std::string kGood = R"([project]
op = "matmul"
language = "python"
kernel = ["kernel.py"]
[commands]
test = ["python3", "test.py"]
test_summary = 'passed=(\d+) failed=(\d+)'
benchmark = ["ssh", "box", "docker", "exec", "c", "bench.py", "--csv", "{csv}", "--only={shapes}"]
fresh = ["--fresh"]
[benchmark]
schema = "gemm"
peak = 2.5
shapes = ["small", "B4-M4096"]
)";

Project good() { return parse_project(kGood, "/somewhere").value(); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Project, ReadsItsFileAndFillsCommands) {
  const Project project = good();
  EXPECT_EQ(project.op, "matmul");
  EXPECT_EQ(project.header, frozen_header("gemm"));
  EXPECT_DOUBLE_EQ(project.metric_unit, 1e12);
  const Command command = filled(project.benchmark, {"/tmp/x.csv", "small,B4-M4096", "/copy"});
  EXPECT_EQ(command[6], "--csv");
  EXPECT_EQ(command[7], "/tmp/x.csv");
  EXPECT_EQ(command[8], "--only=small,B4-M4096");
  EXPECT_EQ(label_of(*case_of("matmul", "B4-M4096")), "B4-M4096");
}

TEST(Project, SaysWhatItsCampaignsKeepToAndWhereTheyCommit) {
  EXPECT_TRUE(good().branch.empty());
  EXPECT_TRUE(good().constraints.empty());
  const Project project =
      parse_project(replaced(kGood, "op = \"matmul\"",
                             "op = \"matmul\"\nbranch = \"kernels/mm\"\nconstraints = [\"no PTX\", \"one file\"]"),
                    "/somewhere")
          .value();
  EXPECT_EQ(project.branch, "kernels/mm");
  EXPECT_EQ(project.constraints, (std::vector<std::string>{"no PTX", "one file"}));
}

TEST(Project, AnExtractedPartHoldsItsKernelAndItsFile) {
  EXPECT_TRUE(extracted_part(good()).only.empty());
  const Project project =
      parse_project(replaced(kGood, "op = \"matmul\"", "op = \"matmul\"\nextract = [\"tests/\", \"./bench\"]"), "/x")
          .value();
  EXPECT_EQ(extracted_part(project).only,
            (std::vector<std::string>{"tests", "bench", "kernel.py", "ridge-project.toml"}));
  const auto outside =
      parse_project(replaced(kGood, "op = \"matmul\"", "op = \"matmul\"\nextract = [\"../tests\"]"), "/x");
  EXPECT_NE(outside.error().message.find("project.extract \"../tests\" leaves the project"), std::string::npos);
  for (const char* all : {"\".\"", "\"./\"", "\"tests\", \".\""}) {
    const std::string key = "op = \"matmul\"\nextract = [" + std::string(all) + "]";
    const Project whole = parse_project(replaced(kGood, "op = \"matmul\"", key), "/x").value();
    EXPECT_TRUE(whole.extract.empty()) << all;
    EXPECT_TRUE(extracted_part(whole).only.empty()) << all;
  }
}

// Every list is compared with paths that have neither a dot nor a slash at their end.
TEST(Project, PathsMeanTheSameHoweverTheyAreWritten) {
  std::string text = replaced(kGood, "kernel = [\"kernel.py\"]",
                              "kernel = [\"./kernel.py\"]\nleave_out = [\"data/\", \"./more//raw/\"]");
  text = replaced(text, "fresh =", "writes = [\"build/\", \"./log\"]\nfresh =");
  const Project project = parse_project(text, "/x").value();
  EXPECT_EQ(project.kernel, std::vector<std::string>{"kernel.py"});
  EXPECT_EQ(project.leave_out, (std::vector<std::string>{"data", "more/raw"}));
  EXPECT_EQ(project.writes, (std::vector<std::string>{"build", "log"}));
  const auto nothing = parse_project(replaced(text, "\"data/\"", "\"./\""), "/x");
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("project.leave_out \".\" is the whole project"), std::string::npos)
      << nothing.error().text();
  EXPECT_FALSE(parse_project(replaced(text, "\"data/\"", "\"kernel.py/\""), "/x"));
  text = replaced(replaced(text, "./kernel.py", "src/kernel.py"), "\"build/\"", "\"src/\"");
  const auto holds = parse_project(text, "/x");
  ASSERT_FALSE(holds);
  EXPECT_NE(holds.error().message.find("commands.writes \"src\" is or holds src/kernel.py"), std::string::npos)
      << holds.error().text();
}

TEST(BenchTable, EveryColumnOfNoiseCounts) {
  const Project project =
      parse_project(replaced(kGood, "schema = \"gemm\"",
                             "schema = \"custom\"\nheader = \"label,Check,GB/s,ms,out_snr,dx_snr,snr\"\n"
                             "metric_column = \"GB/s\"\ntime_column = \"ms\"\nmetric_unit = 1e9"),
                    "/somewhere")
          .value();
  const auto rows = read_bench_table(project.header + "\nsmall,PASS,1,1,120,-3,7\n", project);
  ASSERT_TRUE(rows) << rows.error().text();
  const std::vector<std::pair<std::string, double>> noise = {{"out_snr", 120}, {"dx_snr", -3}};
  EXPECT_EQ(rows->front().noise_db, noise);
}

TEST(Project, RefusesWhatCannotBeRunWithTheKey) {
  const struct {
    const char *from, *to, *says;
  } rows[] = {
      {"op = \"matmul\"", "", "project.op must be there"},
      {"op = \"matmul\"", "op = 3", "project.op must be a text"},
      {"kernel = [\"kernel.py\"]", "kernel = []", "project.kernel must be not empty"},
      {"kernel = [\"kernel.py\"]", "kernel = [\"../secret\"]", "leaves the project"},
      {"kernel = [\"kernel.py\"]", "kernel = [\".git/config\"]", "leaves the project"},
      {"\"{csv}\"", "\"out.csv\"", "must hold {csv}"},
      {"(\\d+) failed=(\\d+)", "(\\d+)", "capture two numbers"},
      {"(\\d+) failed", "(\\d+ failed", "test_summary"},
      {"schema = \"gemm\"", "schema = \"mine\"", "not gemm, memory or custom"},
      {"schema = \"gemm\"", "schema = \"gemm\"\nheader = \"label,Check\"", "not the frozen one"},
      {"peak = 2.5", "peak = 0", "benchmark.peak must be a positive number"},
      {"peak = 2.5", "", "benchmark.peak must be there"},
      {"\"small\", \"B4", "\"small\", \"small\", \"B4", "twice"},
      {"\"small\"", "\"sm all\"", "letters, digits"},
      {"fresh = [\"--fresh\"]", "fresh = [\"--fresh\"]\ncolour = \"red\"",
       "commands.colour must be a key that is known"},
      {"fresh = [\"--fresh\"]", "fresh = [\"--fresh\"]\nprofile = [\"perf\"]", "commands.profile must hold {csv}"},
      {"op = \"matmul\"", "op = \"matmul\"\nbranch = 3", "project.branch must be a text"},
      {"op = \"matmul\"", "op = \"matmul\"\nconstraints = \"one\"", "project.constraints must be a list of texts"},
      {"[benchmark]", "[benchmark", "line"}};
  for (const auto& row : rows) {
    const Result<Project> project = parse_project(replaced(kGood, row.from, row.to), "/somewhere");
    ASSERT_FALSE(project) << row.to;
    EXPECT_NE(project.error().text().find(row.says), std::string::npos) << project.error().text();
    EXPECT_NE(project.error().hint.find("docs/projects.md"), std::string::npos);
  }
}

TEST(Project, ACustomSchemaBringsItsColumns) {
  const std::string text =
      replaced(kGood, "schema = \"gemm\"",
               "schema = \"custom\"\nheader = \"label,Check,ms,Gitems/s\"\nmetric_column = \"Gitems/s\"\n"
               "time_column = \"ms\"\nmetric_unit = 1e9");
  const Result<Project> project = parse_project(text, "/somewhere");
  ASSERT_TRUE(project) << project.error().text();
  EXPECT_EQ(read_bench_table("label,Check,ms,Gitems/s\nsmall,PASS,2,3\n", *project)->front().latency, 2e-3);
  EXPECT_FALSE(parse_project(replaced(text, "time_column = \"ms\"", "time_column = \"s\""), "/x"));
}

std::string table(const std::string& rows) { return std::string(frozen_header("gemm")) + "\r\n" + rows; }
const std::string kSmall = "small,1,1500,500,500,PASS,0.5,0.01,nan,nan,1.5,nan,60,nan,nan\r\n";
const std::string kLarge = "B4-M4096,4,4096,680,680,PASS,0.75,0,nan,nan,20.25,nan,inf,nan,nan\r\n";

TEST(BenchTable, ReadsWhatPythonsDictWriterWrites) {
  const auto rows = read_bench_table(table(kSmall + kLarge), good(), {"small", "B4-M4096"});
  ASSERT_TRUE(rows) << rows.error().text();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].label, "small");
  EXPECT_TRUE((*rows)[0].passed);
  EXPECT_DOUBLE_EQ((*rows)[0].latency, 1.5e-3);
  EXPECT_DOUBLE_EQ((*rows)[0].metric, 0.5);
  EXPECT_EQ((*rows)[0].noise_db.front(), (std::pair<std::string, double>("out_snr", 60)));
  EXPECT_TRUE(std::isinf((*rows)[1].noise_db.front().second));
  const auto quoted = read_bench_table(table("\"a, \"\"b\"\"\"" + kSmall.substr(5)), good());
  ASSERT_TRUE(quoted) << quoted.error().text();
  EXPECT_EQ(quoted->front().label, "a, \"b\"");
}

TEST(BenchTable, GivesTheMetricsOfItsColumns) {
  const std::string both =
      "small,1,1500,500,500,PASS,0.5,0,0.5,0,1.5,3.0,60,60,60\r\nB4-M4096,4,4096,680,680,PASS,0.75,0,0.75,0,20.25,40.5,"
      "60,60,60\r\n";
  const auto two = contents_of(table(both), good());
  ASSERT_TRUE(two) << two.error().text();
  EXPECT_EQ(two->metrics,
            (std::vector<std::string>{"forward_tflops", "backward_tflops", "combined_step_tflops", "latency"}));
  EXPECT_EQ(default_metric(*two, good()), "combined_step_tflops");
  const auto one = contents_of(table(kSmall + kLarge), good());
  EXPECT_EQ(one->metrics, (std::vector<std::string>{"forward_tflops", "latency"}));
  EXPECT_EQ(default_metric(*one, good()), "forward_tflops");
  Project project = good();
  project.metric = record::parse_metric("combined_step_tflops").value();
  const auto rows = read_bench_table(table(both), project);
  ASSERT_TRUE(rows) << rows.error().text();
  EXPECT_DOUBLE_EQ(rows->front().latency, 4.5e-3);
  EXPECT_DOUBLE_EQ(rows->front().work, 6.0 * 1500 * 500 * 500);
  const auto missing = read_bench_table(table(kSmall + kLarge), project);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("without a backward pass, which combined_step_tflops counts"),
            std::string::npos);
}

TEST(BenchTable, AFailedRowMayHaveNoTime) {
  const auto rows = read_bench_table(table("small,1,8,8,8,FAIL,nan,nan,nan,nan,nan,nan,3,nan,nan\r\n"), good());
  ASSERT_TRUE(rows) << rows.error().text();
  EXPECT_FALSE(rows->front().passed);
  EXPECT_TRUE(read_bench_table(table("small,1,8,8,8,ERROR,0,0,0,0,ERROR,0,0,0,0\r\n"), good()));
}

TEST(BenchTable, RefusesEveryWayToLie) {
  const std::vector<std::string> wanted = {"small", "B4-M4096"};
  const struct {
    std::string text;
    const char* says;
  } rows[] = {
      {"", "empty"},
      {table(kSmall), "left out \"B4-M4096\""},                                        // a dropped shape
      {table(kSmall + kLarge + replaced(kSmall, "small", "extra")), "not asked for"},  // one more
      {table(kSmall + replaced(kLarge, "B4-M4096", "b4-m4096")), "not asked for"},     // renamed
      {table(kSmall + kSmall + kLarge), "there twice"},
      {table(replaced(kSmall, "PASS", "pass") + kLarge), "not PASS, FAIL or ERROR"},
      {table(replaced(kSmall, "PASS", "") + kLarge), "not PASS, FAIL or ERROR"},
      {table(replaced(kSmall, ",1.5,", ",nan,") + kLarge), "without a time"},
      {table(replaced(kSmall, ",1.5,", ",0,") + kLarge), "without a time"},
      {table(replaced(kSmall, ",1.5,", ",-1,") + kLarge), "without a time"},
      {table(replaced(kSmall, ",1.5,", ",1.5 fast,") + kLarge), "without a time"},
      {table(replaced(kSmall, "PASS,0.5", "PASS,inf") + kLarge), "without a time"},
      {table(replaced(kSmall, ",nan,nan\r", "\r") + kLarge), "cells"},
      {replaced(table(kSmall + kLarge), "Forward TFLOPS,", "Forward GFLOPS,"), "not the frozen one"},
      {table("\"small" + kSmall.substr(5) + kLarge), "quote"},
      {table(kSmall + kLarge) + table(kSmall + kLarge), "line 4: a second table begins"},
      // GFLOPS under the name of TFLOPS, and a time in seconds
      {table(replaced(kSmall, "PASS,0.5,", "PASS,500,") + kLarge), "another unit, or columns that are swapped"},
      {table(replaced(kSmall, ",1.5,", ",0.0015,") + kLarge), "another unit, or columns that are swapped"},
      // forward and backward swapped: each then does the other's work
      {table("small,1,1500,500,500,PASS,0.5,0,0.5,0,3.0,1.5,60,60,60\r\n" + kLarge), "another unit, or columns"},
      // a backward pass with a time and no throughput, a zero, a negative time, an infinity, or a word
      {table("small,1,1500,500,500,PASS,0.5,0,nan,0,1.5,3.0,60,60,60\r\n" + kLarge), "without a time and a throughput"},
      {table("small,1,1500,500,500,PASS,0.5,0,0.5,0,1.5,nan,60,60,60\r\n" + kLarge), "Backward Time (ms) is \"nan\""},
      {table("small,1,1500,500,500,PASS,0.5,0,0.5,0,1.5,0,60,60,60\r\n" + kLarge), "Backward Time (ms) is \"0\""},
      {table("small,1,1500,500,500,PASS,0.5,0,0.5,0,1.5,-3,60,60,60\r\n" + kLarge), "Backward Time (ms) is \"-3\""},
      {table("small,1,1500,500,500,PASS,0.5,0,inf,0,1.5,3,60,60,60\r\n" + kLarge), "Backward TFLOPS is \"inf\""},
      {table("small,1,1500,500,500,PASS,0.5,0,n/a,0,1.5,n/a,60,60,60\r\n" + kLarge), "Backward TFLOPS is \"n/a\""},
  };
  for (const auto& row : rows) {
    const auto read = read_bench_table(row.text, good(), wanted);
    ASSERT_FALSE(read) << row.says;
    EXPECT_NE(read.error().message.find(row.says), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace ridge::project
