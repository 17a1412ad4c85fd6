// A foreign campaign in the layout people use, then bent, cut and shredded.
#include "campaign/foreign.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/files.h"
#include "campaign/slim.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader =
    "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,Forward Time "
    "(ms),Backward Time (ms),out_snr,da_snr,db_snr\r\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class Foreign : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  static std::string table(double speed, const std::string& check = "PASS") {
    return kHeader +
           fmt::format(
               "a,1,64,64,64,{0},{1},0.5,nan,nan,1,nan,60,nan,nan\r\nb,1,64,64,64,PASS,{1},0.5,nan,nan,1,nan,60,"
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
    write("logs/cost.md", cost);
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

  const std::string cost =
      "# Campaign Cost Log\n\n| Time | Phase | Round | Status | Wall s | SDK s | Turns | Cost USD | Cumulative USD |\n"
      "|---|---|---|---|---|---|---|---|---|\n"
      "| 2026-04-23 15:20:25 | DEFINE_TARGET | - | ok | 65.8 | 65.3 | 13 | $0.8695 | $0.8695 |\n"
      "| 2026-04-23 15:45:00 | BASELINE | 1 | ok | 305.4 | 304.9 | 22 | $1.4180 | $2.2875 |\n"
      "| 2026-04-23 16:00:00 | ANALYZE | 2 | ok | 180.0 | 179.5 | 18 | $0.7400 | $3.0275 |\n"
      "| 2026-04-23 16:25:00 | VALIDATE (quick) | 2 | ok | 120.0 | 119.5 | 8 | $0.4500 | $3.4775 |\n"
      "| 2026-04-23 17:00:00 | ANALYZE | 3 | ok | 150.0 | - | - | - | - |\n";
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
          kHeader + fmt::format("\"a, wide\",1,64,64,64,pass,{0},0.5,nan,nan,1,nan,60,nan,nan\r\n", speed));
  }
  EXPECT_EQ(findings(), "");
}

TEST_F(Foreign, ALinkOutOfTheFolderIsNotRead) {
  const std::filesystem::path secret = root().parent_path() / "secret.md", at = root() / "logs/performance_trend.md";
  std::filesystem::copy_file(at, secret, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(at);
  std::filesystem::create_symlink(secret, at);
  EXPECT_NE(findings().find("a link that leads out of the folder"), std::string::npos) << findings();
  std::filesystem::remove(secret);
}

TEST_F(Foreign, OurOwnCampaignsReadAsForeignOnesToo) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(120)}, "SLOWER")}));
  ASSERT_TRUE(world.run());
  const LintReport report = *lint_foreign(world.path());
  for (const LintFinding& one : report.findings) ADD_FAILURE() << one.path << ": " << one.what;
  EXPECT_EQ(report.without_commands, 0);
  EXPECT_EQ(report.rounds, 3);
}

// Own campaigns are excused from what their journals say in full; one line of any journal excuses nothing.
TEST_F(Foreign, TheFirstLineOfAnotherJournalExcusesNothing) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  ASSERT_TRUE(world.run());
  const std::string journal = *read_file(world.path() / "journal.jsonl");
  write("rounds/round-2/artifacts/benchmark.csv", table(100.01));
  const std::string before = findings();
  write("journal.jsonl", journal.substr(0, journal.find('\n') + 1));
  const std::string after = findings();
  EXPECT_NE(after.find("journal.jsonl: the files of the folder are not what it gives"), std::string::npos) << after;
  std::istringstream lines(before);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.find("journal.jsonl") != std::string::npos || after.find(line) != std::string::npos) << line;
  }
}

TEST_F(Foreign, EveryContradictionIsFound) {
  const auto found = [&](const char* says) {
    const std::string text = findings();
    EXPECT_NE(text.find(says), std::string::npos) << says << " is not in:\n" << text;
    SetUp();
  };
  write("rounds/round-2/artifacts/benchmark.csv", table(150));
  found("forward: the geometric mean of its rows is 150.000 TFLOPS, the trend says 110.000");
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

// What the rows of a record say against its own prose, and against its manifest.
TEST_F(Foreign, WhatTheRowsContradictIsFound) {
  const auto found = [&](const char* says) {
    const std::string text = findings();
    EXPECT_NE(text.find(says), std::string::npos) << says << " is not in:\n" << text;
    SetUp();
  };
  const auto with_rows = [&](int number, const std::string& rows) {
    write(fmt::format("rounds/round-{}/artifacts/benchmark.csv", number), kHeader + rows);
  };
  fs::remove(root() / "state/c/run.json");
  found("missing: state/<id>/run.json: phase, best round and decisions are known from prose alone");
  write("logs/performance_trend.md", replaced(trend, "| 110.000 | 110 |", "| 110.000 | 140 |"));
  found("forward: the largest row is 110.000 TFLOPS, the trend's peak 140.000");
  write("logs/performance_trend.md", replaced(trend, "| 110.000 | 110 | - | - |", "| 110.000 | 110 | 70.0 | 55 |"));
  with_rows(2, "a,1,64,64,64,PASS,110,0.5,50,0.5,1,1,60,60,60\r\nb,1,64,64,64,PASS,110,0.5,50,0.5,1,1,60,60,60\r\n");
  found("backward: the geometric mean of its rows is 50.000 TFLOPS, the trend says 70.000");
  write("logs/performance_trend.md",
        replaced(trend, "110.000 | 110 | - | - | 110.000", "101.000 | 101 | - | - | 101.000"));
  with_rows(
      2,
      "a,1,64,64,64,PASS,101,0.5,nan,nan,1,nan,60,nan,nan\r\nb,1,64,64,64,PASS,101,0.5,nan,nan,1,nan,60,nan,nan\r\n");
  EXPECT_NE(findings().find("accepted at +1.00 %, below the noise of 2.00 %, without a second measurement"),
            std::string::npos)
      << findings();
  write("rounds/round-2/artifacts/full_benchmark.csv", table(101));  // measured again
  EXPECT_EQ(findings(), "");
  fs::remove(root() / "rounds/round-2/artifacts/full_benchmark.csv");
  SetUp();
  with_rows(
      2, "a,1,64,64,64,PASS,110,9,nan,nan,1,nan,60,nan,nan\r\nb,1,64,64,64,PASS,110,0.5,nan,nan,1,nan,60,nan,nan\r\n");
  found("accepted at +10.00 %, below the noise of 16.36 %");
  with_rows(3,
            "a,1,64,64,64,PASS,90,0.0,nan,0.0,1,nan,60,nan,nan\r\nb,1,64,64,64,PASS,90,0,nan,nan,1,nan,60,nan,nan\r\n");
  found("every deviation is 0");
  with_rows(
      2,
      "a,1,64,64,64,PASS,110,0.5,nan,nan,-1,nan,60,nan,nan\r\nb,1,64,64,64,PASS,110,0.5,nan,nan,0,nan,60,nan,nan\r\n");
  found("a passes with a time of -1 ms");
  fs::remove(root() / "logs/cost.md");
  found("missing: logs/cost.md: is not there");
  write("logs/cost.md", replaced(cost, "| ANALYZE | 3 |", "| ANALYZE | 4 |"));
  found("missing: logs/cost.md: no ANALYZE of round 3");
  write("logs/cost.md", replaced(cost, "VALIDATE (quick)", "REVIEW"));
  found("missing: logs/cost.md: no VALIDATE of round 2");
  write("rounds/round-x/summary.md", "x");
  found("rounds/round-x: is not called round-N");
  fs::remove_all(root() / "rounds/round-x");
  write("profiles/after/profile_summary.md", "x");
  found("profiles/after: is not called round-N_<trigger>");
}

TEST_F(Foreign, ShapesOfAManifestAreThoseOfItsTables) {
  const std::string manifest = *read_file(root() / "manifest.yaml");
  const auto with_shapes = [&](const std::string& shapes) {
    write("manifest.yaml", replaced(manifest, "target_shapes: all\n", shapes));
  };
  with_shapes("target_shapes:\n  - {label: a, B: 4, M_g: 4096}\n  - {label: b, B: 1, M_g: 8}\n");
  EXPECT_EQ(findings(), "");
  EXPECT_EQ(import_foreign(root())->shapes, (std::vector<std::string>{"a", "b"}));
  with_shapes("target_shapes: [a, b, c]\n");
  EXPECT_NE(findings().find("round-1/artifacts/benchmark.csv: lacks c, which the manifest names"), std::string::npos);
  with_shapes("target_shapes: [a, b, c]\nrepresentative_shapes: [a, b]\n");  // a quick look
  EXPECT_EQ(findings(), "");
  with_shapes("target_shapes: [a]\n");
  EXPECT_NE(findings().find("measures b, which the manifest does not name"), std::string::npos);
  // Work that is spread over groups, on even ones alone.
  const std::string grouped = replaced(manifest, "target_op: gemm", "target_op: grouped_gemm_fp8");
  write("manifest.yaml", grouped);
  EXPECT_NE(findings().find("no shape with a skewed load"), std::string::npos) << findings();
  write("manifest.yaml", replaced(grouped, "target_shapes: all\n",
                                  "target_shapes: [a, b, 'c:0-0-64-960']\nrepresentative_shapes: [a, b]\n"));
  EXPECT_EQ(findings(), "");
}

// Cut anywhere in the middle, every file of it gives a finding: nothing is taken for a campaign that was shorter.
TEST_F(Foreign, AFileThatIsCutInTheMiddleIsFound) {
  for (const char* path : {"manifest.yaml", "manifest.confirmed", "logs/optimize.md", "logs/performance_trend.md",
                           "logs/cost.md", "rounds/round-1/summary.md", "rounds/round-2/artifacts/benchmark.csv",
                           "verified_ineffective.jsonl", "state/c/run.json"}) {
    const std::string text = *read_file(root() / path);
    for (const std::size_t cut : {text.size() / 3, text.size() / 2, 3 * text.size() / 4}) {
      write(path, text.substr(0, cut));
      EXPECT_NE(findings(), "") << path << " cut at " << cut << " of " << text.size() << " bytes";
    }
    write(path, text);
  }
  fs::remove_all(root() / "rounds/round-3");
  EXPECT_NE(findings().find("missing: rounds/round-3: the trend has this round"), std::string::npos);
}

TEST_F(Foreign, AnImportKeepsShapesCostsDirectionsAndProfiles) {
  write("logs/optimize.md",
        "## Basic Information\n## Baseline\n## Optimization History\n## Current Best\n## Directions to Try\n"
        "- [ ] swizzle the tile\n- [x] ~~more waves~~ (verified in round-2)\n"
        "## Verified Ineffective Directions\n| Direction | Version | Failure Reason |\n|---|---|---|\n"
        "| split K | round-3 | slower |\n## Final Report\n");
  write("profiles/round-2_post_accept/profile_summary.md", "busy 60 %\n");
  write("profiles/round-2_post_accept/rocprofv3/host1/1_kernel_trace.csv",
        "Kernel_Name,Start_Timestamp,End_Timestamp,VGPR_Count\n\"gemm<1, 2>\",1000,4000,128\nquant,4000,5000,32\n"
        "\"gemm<1, 2>\",5000,9000,128\nbroken,9000\n");
  EXPECT_EQ(findings(), "");
  const record::ForeignCampaign read = *import_foreign(root());
  ASSERT_EQ(read.rounds.size(), 3u);
  ASSERT_EQ(read.rounds[1].shapes.size(), 2u);
  EXPECT_EQ(read.rounds[1].shapes[0].label, "a");
  EXPECT_EQ(read.rounds[1].shapes[0].check, "PASS");
  EXPECT_EQ(read.rounds[1].shapes[0].forward, 110);
  EXPECT_FALSE(read.rounds[1].shapes[0].backward);
  ASSERT_EQ(read.costs.size(), 5u);
  EXPECT_EQ(read.costs[3].phase, "VALIDATE (quick)");
  EXPECT_EQ(read.costs[3].round, 2);
  EXPECT_EQ(read.costs[3].usd, 0.45);
  EXPECT_FALSE(read.costs[0].round);
  EXPECT_FALSE(read.costs[4].usd);
  ASSERT_EQ(read.directions.size(), 3u);
  EXPECT_EQ(read.directions[0].state, "open");
  EXPECT_EQ(read.directions[0].text, "swizzle the tile");
  EXPECT_EQ(read.directions[1].state, "tried");
  EXPECT_EQ(read.directions[1].text, "more waves");
  EXPECT_EQ(read.directions[1].round, 2);
  EXPECT_EQ(read.directions[2].state, "ineffective");
  EXPECT_EQ(read.directions[2].reason, "slower");
  ASSERT_EQ(read.profiles.size(), 1u);
  EXPECT_EQ(read.profiles[0].trigger, "post_accept");
  EXPECT_EQ(read.profiles[0].summary, "busy 60 %\n");
  ASSERT_EQ(read.profiles[0].kernels.size(), 2u);
  EXPECT_EQ(read.profiles[0].kernels[0].name, "gemm<1, 2>");
  EXPECT_EQ(read.profiles[0].kernels[0].launches, 2);
  EXPECT_EQ(read.profiles[0].kernels[0].duration_us, 7);
}

// Of a record of which the journal alone is kept, the files are what it renders.
TEST_F(Foreign, ARecordOfAJournalAloneIsReadAsItRenders) {
  World world(one_per_round({make_proposal({make_candidate(150)})}));
  ASSERT_TRUE(world.run());
  ASSERT_TRUE(slim_campaign(world.path()));
  ASSERT_FALSE(fs::exists(world.path() / "logs"));
  const LintReport report = *lint_foreign(world.path());
  for (const LintFinding& one : report.findings) ADD_FAILURE() << one.path << ": " << one.what;
  EXPECT_EQ(report.accepted, 1);
  // A journal that is none does not spare a foreign record anything.
  EXPECT_FALSE(fs::exists(world.path() / "logs"));
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
