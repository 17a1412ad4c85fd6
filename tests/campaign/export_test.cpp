// Out into the layouts of other tools and back in: the same story, and nothing that decides.
#include "campaign/export.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "base/text.h"
#include "campaign/foreign.h"
#include "campaign/score.h"
#include "execute/git.h"
#include "record/foreign.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;

class Exchange : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(world_.run());
    state_ = world_.state();
    ASSERT_EQ(state_.rounds.size(), 3u);
  }
  fs::path write(ExportFormat format, const std::string& name) {
    const Result<Export> exported = render_export(state_, format);
    EXPECT_TRUE(exported) << exported.error().text();
    const Status written = write_export(world_.base() / name, *exported);
    EXPECT_TRUE(written) << written.error().text();
    return world_.base() / name;
  }
  static std::string kinds(const record::ForeignCampaign& campaign) {
    std::string text;
    for (const auto& one : campaign.findings) text += one.kind + " " + one.path + ": " + one.what + "\n";
    return text;
  }
  // Statuses and titles as the journal has them; a bar does not fit a table.
  void expect_same_story(const record::ForeignCampaign& campaign, bool in_cells) {
    ASSERT_EQ(campaign.rounds.size(), 4u);
    EXPECT_EQ(campaign.rounds[0].status, "BASELINE");
    for (std::size_t i = 0; i < state_.rounds.size(); ++i) {
      const Round& round = state_.rounds[i];
      const std::string title = round.last().proposal.hypothesis.title;
      EXPECT_EQ(campaign.rounds[i + 1].round, round.number);
      EXPECT_EQ(campaign.rounds[i + 1].status, round.committed ? "ACCEPTED" : "ROLLBACK");
      EXPECT_EQ(campaign.rounds[i + 1].description, in_cells ? cell(title) : title);
      const double step = step_score(points_of(state_, round), {}).step;
      ASSERT_EQ(campaign.rounds[i + 1].tflops.has_value(), std::isfinite(step));
      if (std::isfinite(step)) {
        EXPECT_NEAR(*campaign.rounds[i + 1].tflops, step, 0.0005);
      }
    }
  }
  // Every row of our table under the viewer's names.
  static void expect_same_table(const std::string& theirs, const std::string& ours) {
    const std::vector<std::string> mine = split(ours, '\n'), rows = split(theirs, '\n');
    ASSERT_EQ(rows.size(), mine.size());
    const auto cell = [](const std::string& header, const std::string& row, const std::string& name) {
      const std::vector<std::string> names = csv_cells(trimmed(header)), cells = csv_cells(trimmed(row));
      const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      EXPECT_LT(at, cells.size()) << name << " in " << row;
      return at < cells.size() ? cells[at] : std::string("none");
    };
    const std::map<std::string, std::string> same = {{"label", "label"},
                                                     {"B", "B"},
                                                     {"M", "M"},
                                                     {"N", "N"},
                                                     {"K", "K"},
                                                     {"out_snr", "out_snr"},
                                                     {"fwd_ms_mean", "Forward Time (ms)"},
                                                     {"fwd_tflops_mean", "Forward TFLOPS"},
                                                     {"fwd_tflops_std", "Forward TFLOPS_stddev"},
                                                     {"bwd_ms_mean", "Backward Time (ms)"}};
    const auto known = [](const std::string& value) { return value == "nan" ? std::string() : value; };
    for (std::size_t i = 1; i + 1 < mine.size(); ++i) {
      for (const auto& [name, of] : same)
        EXPECT_EQ(cell(rows[0], rows[i], name), known(cell(mine[0], mine[i], of))) << name;
      EXPECT_EQ(cell(rows[0], rows[i], "correct"), cell(mine[0], mine[i], "Check"));
    }
  }
  static record::Proposal awkward() {
    record::Proposal proposal = make_proposal({make_candidate(180)}, "awkward");
    proposal.hypothesis.title = "a | bar, and \"quotes\"";
    return proposal;
  }

  World world_{one_per_round({awkward(), make_proposal({make_candidate(50)}, "slow"),
                              make_proposal({make_candidate(kIsWrong), make_candidate(kCrashes)}, "broken")})};
  State state_;
};

TEST_F(Exchange, AViewersLayoutComesBackAsTheSameStory) {
  const fs::path folder = write(ExportFormat::kTurboView, "view");
  const std::string csv = *read_file(folder / "rounds/round-2/artifacts/benchmark.csv");
  EXPECT_TRUE(csv.starts_with("label,B,M,N,K,correct,")) << csv;
  expect_same_table(csv, *read_file(world_.path() / "rounds/round-2/artifacts/benchmark.csv"));
  EXPECT_NE(read_file(folder / "logs/performance_trend.md")->find("\n| 2 | ACCEPTED |"), std::string::npos);
  EXPECT_NE(read_file(folder / "logs/performance_trend.md")->find("| Step Geomean TFLOPS |"), std::string::npos);
  const auto run = parse_json(*read_file(folder / "state" / state_.spec().id / "run.json"));
  ASSERT_TRUE(run);
  EXPECT_EQ(run->size(), 11u);  // its reader refuses any other number
  const Result<record::ForeignCampaign> back = import_foreign(folder);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->op, "gemm");
  expect_same_story(*back, true);
  // What that layout cannot hold is said, and nothing else.
  const std::set<std::string> expected = {
      "contradiction logs/performance_trend.md: \"Step Geomean TFLOPS\" is sqrt(forward x backward), which can rise "
      "while a step gets slower",
      "missing rounds/round-4/kernel_snapshot: nothing could be restored from this round",  // no candidate was usable
      "missing rounds/round-4/artifacts/benchmark.csv: is not there",
      "missing journal.jsonl: there are no raw samples: no decision can be computed again"};
  std::set<std::string> said;
  for (const auto& one : back->findings) said.insert(one.kind + " " + one.path + ": " + one.what);
  EXPECT_EQ(said, expected);
}

TEST_F(Exchange, AMemoryLayoutComesBackAsTheSameStory) {
  const fs::path folder = write(ExportFormat::kAtrex, "memory");
  EXPECT_EQ(*read_file(folder / "kernel.cpp"), state_.incumbent.candidate.sources[0].text);
  EXPECT_TRUE(fs::exists(folder / "plans/v1_plan.md"));
  const Result<record::ForeignCampaign> back = import_foreign(folder);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->layout, "atrex");
  expect_same_story(*back, false);
  EXPECT_LT(*back->rounds[1].latency_us, *back->rounds[0].latency_us);
  EXPECT_EQ(kinds(*back), "missing journal.jsonl: there are no raw samples: no decision can be computed again\n");
}

// A repository whose commits are the accepted kernels; what readers of that layout take for the best is the best
// accepted one.
TEST_F(Exchange, AWorkspaceIsARepositoryWhoseBestIsTheBestAccepted) {
  World world(one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(50)}, "slow"),
                             make_proposal({make_candidate(200)}, "faster still")}));
  ASSERT_TRUE(world.run());
  const State state = world.state();
  const Export exported = *render_export(state, ExportFormat::kAtrex);
  ASSERT_EQ(exported.versions.size(), 4u);
  const fs::path folder = world.base() / "workspace";
  ASSERT_TRUE(write_export(folder, exported));
  const auto git = execute::make_git(folder);
  ASSERT_TRUE(git->is_repository());
  EXPECT_TRUE(git->changes()->empty());
  std::set<std::string> commits;
  for (const int version : {0, 1, 2, 3}) {
    std::vector<std::string> oddities;
    const auto one =
        *record::parse_foreign_iteration(*read_file(folder / fmt::format("memory/v{}.json", version)), oddities);
    EXPECT_TRUE(oddities.empty());
    EXPECT_EQ(one.commit.has_value(), version != 2) << version;
    if (one.commit) {
      EXPECT_TRUE(git->tree(*one.commit)) << version;
      EXPECT_TRUE(commits.insert(*one.commit).second) << version;
    }
  }
  EXPECT_EQ(*read_file(folder / "kernel.cpp"), state.incumbent.candidate.sources[0].text);
  // Once more: nothing is committed again, a mask stays, and what another tool put there too.
  const std::string head = *git->head();
  ASSERT_TRUE(write_export(folder, exported));
  EXPECT_EQ(*git->head(), head);
  std::string record = *read_file(folder / "memory/v2.json");
  record.replace(record.find("\"masked\": false"), 15, "\"masked\": true");
  std::ofstream(folder / "memory/v2.json") << record;
  std::ofstream(folder / "notes.txt") << "mine";
  ASSERT_TRUE(write_export(folder, exported));
  EXPECT_NE(read_file(folder / "memory/v2.json")->find("\"masked\": true"), std::string::npos);
  EXPECT_EQ(*read_file(folder / "notes.txt"), "mine");
}

TEST_F(Exchange, AnExportIsBroughtUpToDateAndNothingElseIsWrittenOver) {
  const fs::path folder = write(ExportFormat::kTurboView, "view");
  fs::remove(folder / "logs/cost.md");
  std::ofstream(folder / "logs/optimize.md") << "older";
  write(ExportFormat::kTurboView, "view");
  EXPECT_NE(read_file(folder / "logs/optimize.md")->find("## Final Report"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder / "logs/cost.md"));
  EXPECT_EQ(write_export(folder, *render_export(state_, ExportFormat::kAtrex)).error().code, ErrorCode::kConflict);
}

TEST_F(Exchange, AFaultOfTheHarnessIsNeitherRightNorWrong) {
  World world(one_per_round({make_proposal({make_candidate(150)}, "fast")}));
  world.executor.on(record::WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response = evaluate(request);
    if (request.candidates.front().defines.at("SPEED") == 150) response.error = "the device fell off";
    return response;
  });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_EQ(state.rounds.at(0).decision->outcome, record::Outcome::kHarnessFault);
  // It is in neither layout: those have no word for it, and a viewer would draw it at zero.
  const FileMap memory = render_export(state, ExportFormat::kAtrex)->files;
  EXPECT_FALSE(memory.contains("memory/v1.json"));
  EXPECT_NE(memory.at("README.md").find("round 2 was not measured and is no version: "), std::string::npos);
  const FileMap view = render_export(state, ExportFormat::kTurboView)->files;
  for (const auto& [path, content] : view) EXPECT_FALSE(path.starts_with("rounds/round-2/")) << path;
  EXPECT_EQ(view.at("logs/performance_trend.md").find("| 2 |"), std::string::npos);
}

TEST_F(Exchange, NothingIsWrittenOverAndNothingBeforeTheBaseline) {
  EXPECT_EQ(write_export(world_.path(), {{{"x", "y"}}, {}}).error().code, ErrorCode::kConflict);
  World young(one_per_round({}));
  ASSERT_TRUE(young.create());
  EXPECT_EQ(render_export(young.state(), ExportFormat::kAtrex).error().code, ErrorCode::kConflict);
  EXPECT_NE(export_format("pdf").error().message.find("turbo-view and atrex"), std::string::npos);
  EXPECT_EQ(import_foreign(young.base() / "nothing").error().code, ErrorCode::kNotFound);
  fs::create_directories(young.base() / "empty");
  EXPECT_FALSE(import_foreign(young.base() / "empty"));
}

TEST_F(Exchange, EveryContradictionOfAMemoryIsFound) {
  const struct {
    const char *file, *from, *to, *says;
  } rows[] = {
      {"v1.json", "\"version\": \"v1\"", "\"version\": \"v9\"", "calls itself"},
      {"v1.json", "\"result\": \"PASS\"", "\"result\": \"GREAT\"", "quality_gate.result"},
      {"v1.json", "\"status\": \"PASS\"", "\"status\": \"FAIL\"", "its correctness does not"},
      {"v1.json", "\"latency_us\": ", "\"latency_us\": 9", "geometric mean"},
      {"v1.json", "\"latency_us\": ", "\"latency_us\": -", "latency_us = -"},
      {"v1.json", "\"masked\": false", "\"masked\": \"maybe\"", "masked is not true or false"},
      {"v1.json", "\"performance\": {", "\"performance\": 7, \"x\": {", "performance is not an object"},
      {"v2.json", "\"result\": \"FAIL\"", "\"result\": \"PASS\"", "after"},
      {"v1.json", "\"git_commit_hash\": \"", "\"git_commit_hash\": \"later ", "no hash"},
      {"v1.json", "{", "[", "not valid JSON at line 2"},
  };
  for (const auto& row : rows) {
    const fs::path folder = write(ExportFormat::kAtrex, std::string("bent") + std::to_string(&row - rows));
    std::string text = *read_file(folder / "memory" / row.file);
    const std::size_t at = text.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.from << " in " << text;
    std::ofstream(folder / "memory" / row.file) << text.replace(at, std::string(row.from).size(), row.to);
    const Result<record::ForeignCampaign> found = import_foreign(folder);
    ASSERT_TRUE(found);
    EXPECT_NE(kinds(*found).find(row.says), std::string::npos) << row.says << " | " << kinds(*found);
  }
  const fs::path folder = write(ExportFormat::kAtrex, "gap");
  fs::remove(folder / "memory/v1.json");
  std::ofstream(folder / "memory/v2b.json") << "{}";
  const std::string said = kinds(*import_foreign(folder));
  EXPECT_NE(said.find("missing memory/v1.json"), std::string::npos) << said;
  EXPECT_NE(said.find("not called v<N>.json"), std::string::npos) << said;
}

TEST_F(Exchange, ShreddedFilesNeverCrashIt) {
  std::mt19937 random(5);
  for (const ExportFormat format : {ExportFormat::kAtrex, ExportFormat::kTurboView}) {
    const fs::path folder = write(format, format == ExportFormat::kAtrex ? "a" : "t");
    const std::string run = "state/" + state_.spec().id + "/run.json";
    for (const std::string& file : {std::string("memory/v0.json"), std::string("memory/v1.json"), run,
                                    std::string("logs/performance_trend.md"), std::string("manifest.yaml")}) {
      const Result<std::string> text = read_file(folder / file);
      if (!text) continue;
      for (int i = 0; i < 60; ++i) {
        std::string bent = i % 3 == 0 ? text->substr(0, random() % text->size()) : *text;
        for (int k = 0; i % 3 != 0 && k < 1 + i / 4; ++k) bent[random() % bent.size()] = static_cast<char>(random());
        std::ofstream(folder / file) << bent;
        EXPECT_TRUE(import_foreign(folder));
      }
      std::ofstream(folder / file) << *text;
    }
    fs::create_directories(folder / "memory/v7.json");  // a folder in a file's place
    std::ofstream(folder / "memory" / "v8.json") << "[[[[";
    EXPECT_TRUE(import_foreign(folder));
  }
}

}  // namespace
}  // namespace ridge::campaign::test
