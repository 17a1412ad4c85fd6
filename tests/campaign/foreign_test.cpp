// A foreign campaign in the layout people use, then bent, cut and shredded.
#include "campaign/foreign.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/files.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader =
    "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,Forward Time "
    "(ms),Backward Time (ms),out_snr,da_snr,db_snr\r\n";

class Foreign : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  static std::string table(double speed, const std::string& check = "PASS") {
    return kHeader + fmt::format(
                         "a,1,64,64,64,{0},{1},0,nan,nan,1,nan,60,nan,nan\r\nb,1,64,64,64,PASS,{1},0,nan,nan,1,nan,60,"
                         "nan,nan\r\n",
                         check, speed);
  }
  void round(int number, const std::string& decision, double speed) {
    const std::string folder = fmt::format("rounds/round-{}/", number);
    write(folder + "kernel_snapshot/kernel.py", "pass\n");
    write(folder + "summary.md", "## Hypothesis\n## Single change\n## Results\n## Decision\n\n" + decision +
                                     "\n\n## Attribution\n## Next direction\n## Real-training transfer check\n");
    write(folder + "artifacts/benchmark.csv", table(speed));
  }
  void SetUp() override {
    write("manifest.yaml",
          "target_op: gemm\ntarget_backend: TRITON\ntarget_lang: Triton\ntarget_gpu: gfx950\nexecution_mode: repo\n"
          "primary_metric: Combined Step TFLOPS\ntarget_shapes: all\nkernel_source: k.py\ntest_command: t\n"
          "benchmark_command: b\nquick_command: q\nperformance_target: null\nmax_iterations: 20\n");
    write("manifest.confirmed", std::string(64, 'a') + "\n");
    write("journal.jsonl", "");
    write("logs/optimize.md",
          "## Basic Information\n## Baseline\n## Optimization History\n## Current Best\n## Directions to Try\n"
          "## Verified Ineffective Directions\n## Final Report\n");
    write("logs/performance_trend.md", trend);
    write("verified_ineffective.jsonl", "{\"round\":3,\"direction\":\"d\",\"reason\":\"r\",\"modified_files\":[]}\n");
    write("state/c/run.json",
          "{\"campaign_id\":\"c\",\"best_round\":2,\"extra\":{},\"history\":[{\"round\":2,\"decision\":\"ACCEPTED "
          "(noise-bounded)\"},"
          "{\"round\":3,\"decision\":\"ROLLED BACK\"}]}");
    round(1, "BASELINE", 100);
    round(2, "ACCEPTED: faster", 110);
    round(3, "ROLLED BACK: slower", 90);
  }
  [[nodiscard]] std::string findings() const {
    std::string text;
    const LintReport report = *lint_foreign(root());
    for (const LintFinding& one : report.findings) {
      text += fmt::format("{}: {}: {}\n", to_string(one.kind), one.path, one.what);
    }
    return text;
  }
  [[nodiscard]] fs::path root() const { return directory_.path(); }

  std::string trend =
      "| Round | Status | Description | Fwd Avg TFLOPS | Fwd Peak TFLOPS | Bwd Avg TFLOPS | Bwd Peak TFLOPS | Combined "
      "Step TFLOPS | "
      "vs Baseline | Key Finding |\n|---|---|---|---|---|---|---|---|---|---|\n"
      "| round-1 | BASELINE | x | 100.000 | 100 | - | - | 100.000 | — | y |\n"
      "| round-2 | ACCEPTED | x | 110.000 | 110 | - | - | 110.000 | s | y |\n"
      "| round-3 | ROLLBACK | x | 90.000 | 90 | - | - | 90.000 | s | y |\n";

 private:
  TempDir directory_ = TempDir::create("ridge-foreign").value();
};

TEST_F(Foreign, AConsistentOneHasNoFindings) {
  EXPECT_EQ(findings(), "");
  const LintReport report = *lint_foreign(root());
  EXPECT_EQ(report.rounds, 3);
  EXPECT_EQ(report.accepted, 1);
}

TEST_F(Foreign, AQuotedLabelMayHoldACommaAndAPassAnySpelling) {
  for (const int number : {1, 2, 3}) {
    const double speed = number == 1 ? 100 : number == 2 ? 110 : 90;
    write(fmt::format("rounds/round-{}/artifacts/benchmark.csv", number),
          kHeader + fmt::format("\"a, wide\",1,64,64,64,pass,{0},0,nan,nan,1,nan,60,nan,nan\r\n", speed));
  }
  EXPECT_EQ(findings(), "");
}

TEST_F(Foreign, OurOwnCampaignsReadAsForeignOnesToo) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")}));
  ASSERT_TRUE(world.run());
  const LintReport report = *lint_foreign(world.path());
  for (const LintFinding& one : report.findings) {
    EXPECT_EQ(one.path, "manifest.yaml") << one.what;  // the commands are the engine's own
  }
}

TEST_F(Foreign, EveryContradictionIsFound) {
  const auto found = [&](const char* says) {
    const std::string text = findings();
    EXPECT_NE(text.find(says), std::string::npos) << says << " is not in:\n" << text;
    SetUp();
  };
  write("rounds/round-2/artifacts/benchmark.csv", table(150));
  found("geometric mean 150.000 TFLOPS, the trend says 110.000");
  write("rounds/round-2/artifacts/benchmark.csv", table(110, "FAIL"));
  found("did not pass, and the round was accepted");
  write("rounds/round-2/artifacts/benchmark.csv",
        kHeader + std::string("a,1,64,64,64,PASS,nan,0,nan,nan,1,nan,60,nan,nan\r\n"));
  found("passes without a throughput");
  write("rounds/round-2/artifacts/benchmark.csv",
        kHeader + std::string("a,1,6,6,6,PASS,110,0,0,0,1,0,6,0,0\r\na,1,6,6,6,PASS,110,0,0,0,1,0,6,0,0\r\n"));
  found("there twice");
  write("rounds/round-3/artifacts/benchmark.csv", "label,Check\r\na,PASS\r\nb,PASS\r\n");
  found("header is not the one");
  write("rounds/round-3/summary.md", "## Hypothesis\n## Decision\n\nACCEPTED\n");
  found("says ACCEPTED, the trend says ROLLBACK");
  write("rounds/round-2/summary.md", "## Decision\n\nACCEPTED\n\nA weakref cache on grad_out.\n");
  found("forbidden: rounds/round-2/summary.md");
  write("logs/performance_trend.md", trend + "| round-3 | ROLLBACK | again | 90 | 90 | - | - | 90 | s | y |\n");
  found("round-3 is there twice");
  write("logs/performance_trend.md", trend + "| round-6 | ACCEPTED | x | 90 | 90 | - | - | 80 | s | y |\n");
  found("round 6 comes after round 3");
  write("logs/performance_trend.md", trend + "| round-4 | ACCEPTED | x | 90 | 90 | - | - | 80 | s | y |\n");
  found("accepted at 80, after 110");
  write("state/c/run.json",
        "{\"best_round\":3,\"history\":[{\"round\":2,\"decision\":\"ROLLED BACK\"},{\"round\":2}]}");
  found("round 2: ROLLBACK, the trend says ACCEPTED");
  write("state/c/run.json", "{\"best_round\":3}");
  found("the best round 3 was rolled back");
  write("verified_ineffective.jsonl", "{\"round\":2,\"direction\":\"d\",\"reason\":\"r\",\"modified_files\":[]}\n");
  found("its idea is called ineffective");
  write("state/c/run.json", "{\"best_round\":9}");
  found("the best round 9 is not in the trend");
  write("state/c/run.json", "{\"best_round\":2,\"history\":[{\"round\":7,\"decision\":\"ACCEPTED\"}]}");
  found("round 7 is not in the trend");
  write("state/c/run.json", "{\"best_round\":2,\"history\":[{\"round\":2,\"decision\":\"great\"}]}");
  found("\"great\" is no decision");
  write("verified_ineffective.jsonl", "{\"round\":8,\"direction\":\"d\",\"reason\":\"r\",\"modified_files\":[]}\n");
  found("round 8 is not in the trend");
  write("rounds/round-1/artifacts/benchmark.csv", table(100, "FAIL"));
  found("did not pass, and the round is the baseline");
  write("rounds/round-3/artifacts/benchmark.csv", table(90, "fine"));
  found("a: Check is \"fine\"");
  write("rounds/round-1/artifacts/benchmark.csv", "label,Check,note\r\na,PASS,x\r\n");
  found("no column of a throughput or a time");
  write("rounds/round-2/summary.md", "## Hypothesis\n## Single change\n## Results\n## Decision\n\nACCEPTED\n");
  found("section \"## Next direction\"");
  write("rounds/round-3-b0b1/summary.md", "x");
  found("is not called round-N");
  fs::remove_all(root() / "rounds/round-3-b0b1");
  fs::remove_all(root() / "rounds/round-2");
  found("missing: rounds/round-2");
  write("manifest.yaml", "target_op: gemm\nmax_iterations: 500\nperformance_target: as fast as possible\n");
  found("max_iterations = 500");
  write("manifest.confirmed", "ok\n");
  found("holds no digest");
}

TEST_F(Foreign, NothingCrashesIt) {
  EXPECT_FALSE(lint_foreign(root() / "nowhere"));
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root())) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::mt19937 random(7);
  for (const fs::path& path : files) {
    const std::string text = *read_file(path);
    for (std::size_t cut = 0; cut < text.size(); cut += 1 + text.size() / 23) {  // cut short
      std::ofstream(path) << text.substr(0, cut);
      EXPECT_TRUE(lint_foreign(root()));
    }
    for (int i = 0; i < 12; ++i) {  // shredded
      std::string bent = text;
      for (int k = 0; k < 30 && !bent.empty(); ++k) bent[random() % bent.size()] = static_cast<char>(random());
      std::ofstream(path) << bent;
      EXPECT_TRUE(lint_foreign(root()));
    }
    std::ofstream(path) << text;
  }
  fs::remove(root() / "manifest.yaml");
  fs::create_directories(root() / "manifest.yaml");               // a folder in a file's place
  fs::create_symlink(root() / "logs", root() / "logs" / "loop");  // a loop
  write("rounds/caf\xe9|\n/summary.md", "x");
  write("rounds/round-99999999999999999999/summary.md", "x");
  EXPECT_TRUE(lint_foreign(root()));
  fs::remove_all(root());
  fs::create_directories(root());
  EXPECT_GE(lint_foreign(root())->findings.size(), 4u);
}

}  // namespace
}  // namespace ridge::campaign::test
