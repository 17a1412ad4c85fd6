// Campaigns of a project whose benchmark says what its kernel file tells it to: every column of the table can be bent
// by itself, and the engine, the copies, the processes and the statistics are the real ones.
#include <fstream>
#include <regex>

#include "campaign/baseline.h"
#include "campaign/decide.h"
#include "campaign/export.h"
#include "campaign/foreign.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/target.h"
#include "campaign/verify.h"
#include "execute/project_executor.h"
#include "places.h"
#include "report/report.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;
using record::GateOutcome;
using record::Outcome;

// Two shapes; times in milliseconds. A value of the kernel file replaces what is computed from the others.
constexpr const char* kBench = R"(#!/bin/sh
FORWARD=0.010 BACKWARD=0.020 OUT=60 DA=60 DB=60 HEADER= ONCE=1 TFLOPS= BACK_CHECK=PASS
. ./kernel.sh
awk -v forward="$FORWARD" -v backward="$BACKWARD" -v out="$OUT" -v da="$DA" -v db="$DB" -v header="$HEADER" \
    -v once="$ONCE" -v tflops="$TFLOPS" -v check="$BACK_CHECK" -v shapes="$2" -v seed="$3" '
function noisy(x) { return x == "nan" || x <= 0 ? x : sprintf("%.9g", x * (1 + 0.002 * rand())) }
function rate(flop, ms) { return tflops != "" ? tflops : ms == "nan" || ms <= 0 ? ms : sprintf("%.9g", flop / ms / 1e9) }
BEGIN {
  srand(seed)
  for (n = 0; n < once; ++n) {
    print header != "" ? header : "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,Forward Time (ms),Backward Time (ms),out_snr,da_snr,db_snr"
    count = split(shapes, names, ",")
    for (i = 1; i <= count; ++i) {
      side = 32 * (names[i] == "small" ? 1 : 2); flop = 2 * side * side * side
      f = noisy(forward * (i)); b = backward == "nan" ? "nan" : noisy(backward * (i))
      print names[i] ",1," side "," side "," side "," check "," rate(flop, f) ",0," rate(2 * flop, b) ",0," f "," b "," out "," da "," db
    }
  }
}' > "$1"
)";

constexpr const char* kProject = R"([project]
op = "matmul"
language = "c++"
kernel = ["kernel.sh"]
[commands]
test = ["echo", "passed=3 failed=0"]
test_summary = 'passed=(\d+) failed=(\d+)'
benchmark = ["sh", "bench.sh", "{csv}", "{shapes}", "{seed}"]
fresh = ["--fresh"]
[benchmark]
schema = "gemm"
peak = 1000
shapes = ["small", "large"]
)";

// A table with a header of the project's own: bytes, a quantile, and a rate that is neither FLOP nor bytes.
constexpr const char* kServing = R"(#!/bin/sh
TIME=0.010 P99=0.030 TOKENS=0.00042 OUT=inf
. ./kernel.sh
awk -v time="$TIME" -v p99="$P99" -v tokens="$TOKENS" -v out="$OUT" -v shapes="$2" -v seed="$3" '
function noisy(x) { return sprintf("%.9g", x * (1 + 0.002 * rand())) }
BEGIN {
  srand(seed)
  print "label,Check,Forward GB/s,Forward Time (ms),slowest,Ktoken/s,out_snr"
  count = split(shapes, names, ",")
  for (i = 1; i <= count; ++i) {
    t = noisy(time * i)
    print names[i] ",PASS," sprintf("%.9g", 4.2e-5 / t) "," t "," noisy(p99 * i) "," noisy(tokens / i) "," out
  }
}' > "$1"
)";
constexpr const char* kServingKeys = R"toml(schema = "custom"
header = "label,Check,Forward GB/s,Forward Time (ms),slowest,Ktoken/s,out_snr"
metric_column = "Forward GB/s"
time_column = "Forward Time (ms)"
p99_column = "slowest"
metric_unit = 1e9
)toml";

class ProjectMetric : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root());
    write("bench.sh", kBench);
    write("kernel.sh", "FORWARD=0.010\n");
    write("ridge-project.toml", kProject);
  }
  [[nodiscard]] fs::path root() const { return directory_.path() / "project"; }
  [[nodiscard]] fs::path campaign() const { return directory_.path() / "campaign"; }
  void write(const std::string& file, const std::string& text) const { std::ofstream(root() / file) << text; }

  void serve() const {
    write("bench.sh", kServing);
    std::string text = kProject;
    write("ridge-project.toml",
          text.replace(text.find("schema = "), std::string("schema = \"gemm\"\n").size(), kServingKeys));
    write("kernel.sh", "TIME=0.010\n");
  }
  [[nodiscard]] project::Project project() const { return project::read_project(root()).value(); }

  // As `ridge optimize --project` makes it; an empty metric is the table's own.
  [[nodiscard]] record::CampaignSpec spec_of(const std::string& metric) const {
    const project::Project project = this->project();
    const Result<execute::LookAtTable> looked = execute::look_at_table(project, directory_.path() / "look" / "a");
    EXPECT_TRUE(looked) << looked.error().text();
    const Result<project::TableContents> table = looked->contents;
    record::CampaignSpec spec = make_spec();
    spec.id = "matmul_cpu_test_20260101";
    spec.op = project.op;
    spec.execution_mode = "repo";
    spec.kernel_source = (root() / project::kProjectFile).string();
    spec.target_cases.clear();
    for (const std::string& label : project.shapes) spec.target_cases.push_back(*project::case_of(project.op, label));
    if (!table) return spec;
    describe_table(spec, table->columns, table->metrics, project.min_snr_db, project.snr_margin_db);
    spec.primary_metric = metric.empty() ? project::default_metric(*table, project) : metric;
    return spec;
  }

  // A campaign that tries these kernel files one after the other; its decisions.
  std::vector<record::Decision> decisions_on(const std::vector<std::string>& kernels, const std::string& metric = {}) {
    project::Project project = this->project();
    record::CampaignSpec spec = spec_of(metric);
    project.metric = record::parse_metric(spec.primary_metric).value();
    execute::ProjectOptions options;
    options.workspace = directory_.path() / "work";
    options.settled = sessions_settled;
    const auto executor = execute::make_project_executor(project, options);
    record::WorkerRequest describe;
    describe.task = record::WorkerTask::kDescribe;
    spec.gpu = short_machine_name(executor->run(describe)->environment->facts["cpu.model"]);
    std::vector<record::Proposal> proposals;
    for (const std::string& text : kernels) {
      record::Candidate candidate = project::baseline_of(project).value();
      candidate.sources[0].text = text;
      candidate.name = "kernel";
      record::Proposal proposal = make_proposal({candidate}, "mechanism " + std::to_string(proposals.size()));
      proposal.hypothesis.planned_files = {"kernel.sh"};
      proposal.hypothesis.title += " " + std::to_string(proposals.size());
      proposals.push_back(std::move(proposal));
    }
    SystemClock clock;
    const auto created = create_campaign(campaign(), spec, project::baseline_of(project).value(), clock, {});
    EXPECT_TRUE(created) << created.error().text();
    const auto confirmed = confirm_campaign(campaign(), "test", clock);
    EXPECT_TRUE(confirmed) << confirmed.error().text();
    ScriptedProposer proposer(one_per_round(std::move(proposals)));
    const auto git = execute::make_fake_git(campaign() / "src");
    EngineOptions engine_options;
    engine_options.data = source_dir() / "data";
    engine_options.directory = campaign();
    engine_options.project = project.digest;
    auto engine = Engine::open(std::move(engine_options), Services{*executor, proposer, clock, git.get(), nullptr});
    EXPECT_TRUE(engine) << engine.error().text();
    const Result<RunResult> result = (*engine)->run();
    EXPECT_TRUE(result && result->end == RunEnd::kDone) << (result ? result->reason : result.error().text());
    std::vector<record::Decision> decisions;
    for (const Round& round : (*engine)->state().rounds) {
      if (round.decision) decisions.push_back(*round.decision);
    }
    return decisions;
  }

  [[nodiscard]] std::string file(const std::string& path) const {
    const Result<std::string> text = read_file(campaign() / path);
    EXPECT_TRUE(text) << path;
    return text ? *text : std::string();
  }
  static std::string text_of(const record::Decision& decision) { return record::to_pretty(decision); }
  void expect_it_replays() const {
    const Result<ReplayReport> replayed = replay_campaign(campaign());
    ASSERT_TRUE(replayed) << replayed.error().text();
    EXPECT_TRUE(replayed->differences.empty()) << replayed->differences.front();
    const Result<VerifyReport> verified = verify_campaign(campaign());
    ASSERT_TRUE(verified) << verified.error().text();
    EXPECT_TRUE(verified->ok()) << verified->text();
  }

  TempDir directory_ = TempDir::create("ridge-metric").value();
};

TEST_F(ProjectMetric, TheLyingBackwardIsRolledBack) {
  const auto decisions =
      decisions_on({"FORWARD=0.0066\nBACKWARD=0.200\nDA=1\n",  // all of it
                    "FORWARD=0.0066\nBACKWARD=0.022\n",        // a tenth slower backward
                    "FORWARD=0.0066\nDA=53\n",                 // 7 dB below the baseline
                    "FORWARD=0.0066\nDB=nan\n", "FORWARD=0.0066\nBACKWARD=nan\n", "FORWARD=0.0066\nDA=55\n"},
                   "forward_tflops");
  ASSERT_EQ(decisions.size(), 6u);
  const char* const says[] = {
      "da_snr is 1 dB, more than 6 dB below the baseline's 60 dB", "backward is slower by 5 % or more",
      "da_snr is 53 dB, more than 6 dB below the baseline's 60 dB", "db_snr is missing where the baseline has one",
      "the table has no backward pass, and the incumbent's has one"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_FALSE(decisions[i].accepted) << text_of(decisions[i]);
    EXPECT_NE(decisions[i].reason.find(says[i]), std::string::npos) << decisions[i].reason;
  }
  EXPECT_TRUE(decisions[5].accepted) << text_of(decisions[5]);
  EXPECT_NEAR(decisions[5].effects.front().ratio, 1.5, 0.1);
  ASSERT_EQ(decisions[5].directions.size(), 2u);
  EXPECT_EQ(decisions[5].directions[1].label, "label=large, backward");
  EXPECT_NEAR(decisions[5].directions[1].ratio, 1.0, 0.01);
  expect_it_replays();
  // What the columns say, and nothing else, stopped it.
  const State state = load_campaign(campaign()).value();
  GateInput input = gate_input(state, state.rounds[1]);
  EXPECT_FALSE(judge(input).accepted);
  for (record::Session& session : input.evaluation.sessions) session.columns.clear();
  input.noise.baseline.clear();
  EXPECT_FALSE(judge(input).accepted) << text_of(judge(input));
  EXPECT_NE(judge(input).reason.find("lacks \"label=small, backward\""), std::string::npos) << judge(input).reason;
  input.directions.clear();  // as of a baseline from before there were columns
  EXPECT_TRUE(judge(input).accepted) << text_of(judge(input));
}

// Of eight in a row none is "not measured", which would pause the campaign after three.
TEST_F(ProjectMetric, ABenchmarkThatFailsWithTheCandidateAloneIsTheCandidatesFault) {
  std::string text = kProject;
  write("ridge-project.toml", text.insert(text.find("[benchmark]"), "timeout = 3\n"));
  const struct {
    const char *kernel, *says;
    Outcome outcome;
  } rows[] = {{"kill -9 $$\n", "killed by signal 9", Outcome::kCrash},
              {"exit 3\n", "exited with 3 and wrote no table", Outcome::kCrash},
              {"sleep 600\n", "timed out", Outcome::kHang},
              {"FORWARD=nan\n", "passes without a time and a throughput", Outcome::kWrong},
              {"FORWARD=0\n", "passes without a time and a throughput", Outcome::kWrong},
              {"FORWARD=-0.01\n", "passes without a time and a throughput", Outcome::kWrong},
              {"TFLOPS=nan\n", "passes without a time and a throughput", Outcome::kWrong},
              {"set -- \"$1\" small \"$3\"\n", "left out \"large\"", Outcome::kWrong}};
  std::vector<std::string> kernels;
  for (const auto& row : rows) kernels.emplace_back(row.kernel);
  const auto decisions = decisions_on(kernels);
  ASSERT_EQ(decisions.size(), std::size(rows));
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    EXPECT_FALSE(decisions[i].accepted) << rows[i].kernel;
    EXPECT_EQ(decisions[i].outcome, rows[i].outcome) << rows[i].kernel << text_of(decisions[i]);
    EXPECT_NE(decisions[i].reason.find(rows[i].says), std::string::npos) << decisions[i].reason;
  }
  const State state = load_campaign(campaign()).value();
  for (const Round& round : state.rounds) EXPECT_EQ(round.state(), record::RoundState::kRolledBack) << round.number;
  expect_it_replays();
}

// A device that goes away while the candidate runs fails with the incumbent too: that says nothing of the candidate.
TEST_F(ProjectMetric, ABenchmarkThatFailsWithTheIncumbentTooIsAFaultOfTheHarness) {
  const std::string gone = (directory_.path() / "gone").string();
  write("bench.sh", "#!/bin/sh\n[ ! -e " + gone + " ] || exit 7\n" + kBench);
  execute::ProjectOptions options;
  options.workspace = directory_.path() / "work";
  record::WorkerRequest look;
  look.task = record::WorkerTask::kEvaluate;
  look.incumbent = project::baseline_of(project()).value();
  record::Candidate candidate = *look.incumbent;
  candidate.sources[0].text = "touch " + gone + "\nexit 7\n";
  look.candidates = {candidate};
  look.quick_look = true;
  look.sessions = 1;
  look.cases = spec_of("").target_cases;
  const auto response = execute::make_project_executor(project(), options)->run(look);
  ASSERT_FALSE(response);
  EXPECT_NE(response.error().message.find("and with the incumbent"), std::string::npos) << response.error().message;
}

TEST_F(ProjectMetric, HandoffRefusesABaselineBelowItsNoiseFloor) {
  write("ridge-project.toml", std::string(kProject) + "min_snr_db = 61\n");
  const auto checks = execute::check_handoff(project(), directory_.path() / "handoff" / "a");
  ASSERT_FALSE(checks.empty());
  EXPECT_FALSE(checks.back().works);
  EXPECT_NE(checks.back().detail.find("out_snr is 60 dB, below benchmark.min_snr_db = 61"), std::string::npos)
      << checks.back().detail;
}

TEST_F(ProjectMetric, AProjectFileThatChangedAfterTheBaselineIsRefused) {
  decisions_on({});
  const auto open_with = [&](const std::string& digest) {
    ScriptedProposer proposer({});
    execute::ScriptedExecutor executor;
    SystemClock clock;
    EngineOptions options;
    options.data = source_dir() / "data";
    options.directory = campaign();
    options.project = digest;
    return Engine::open(std::move(options), Services{executor, proposer, clock, nullptr, nullptr});
  };
  const std::string begun = project().digest;
  EXPECT_TRUE(open_with(begun));
  write("ridge-project.toml", std::string(kProject) + "backward_time_column = \"\"\nbackward_metric_column = \"\"\n");
  const auto changed = open_with(project().digest);
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("was changed after the campaign began"), std::string::npos)
      << changed.error().message;
  EXPECT_NE(changed.error().hint.find("put the file back"), std::string::npos) << changed.error().hint;
}

TEST_F(ProjectMetric, ABaselineBelowItsNoiseFloorIsRefused) {
  const auto problem_at = [&](const std::string& floor) {
    write("ridge-project.toml", kProject + ("min_snr_db = " + floor + "\n"));
    execute::ProjectOptions options;
    options.workspace = directory_.path() / ("work" + floor);
    record::WorkerRequest look;
    look.task = record::WorkerTask::kEvaluate;
    look.incumbent = project::baseline_of(project()).value();
    look.candidates = {*look.incumbent};
    look.quick_look = true;
    look.sessions = 1;
    const record::CampaignSpec spec = spec_of("");
    look.cases = spec.target_cases;
    const auto response = execute::make_project_executor(project(), options)->run(look);
    EXPECT_TRUE(response) << response.error().text();
    return response ? baseline_problem(spec, *response->evaluation) : std::string();
  };
  EXPECT_EQ(problem_at("59"), "");
  const std::string says = problem_at("61");
  EXPECT_NE(says.find("out_snr on label=small is 60 dB, below the floor of 61 dB"), std::string::npos) << says;
  EXPECT_NE(says.find("lower benchmark.min_snr_db"), std::string::npos) << says;
}

// peak = 1000 TFLOPS: a backward pass of the large shape cannot take less than 1.05 ns.
TEST_F(ProjectMetric, ABackwardTimeThatBeatsThePeakIsNotReal) {
  const auto decisions = decisions_on({"BACKWARD=0.0000001\n"});
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_FALSE(decisions[0].accepted) << text_of(decisions[0]);
  EXPECT_NE(decisions[0].reason.find("backward: "), std::string::npos) << decisions[0].reason;
  EXPECT_NE(decisions[0].reason.find("is under the compute-bound floor"), std::string::npos) << decisions[0].reason;
}

TEST_F(ProjectMetric, AFasterForwardThatCostsMoreBackwardIsNoFasterStep) {
  const auto decisions = decisions_on({"FORWARD=0.0066\nBACKWARD=0.0206\n",    // 1.10x, and 3 % slower backward
                                       "FORWARD=0.0060\nBACKWARD=0.0214\n"});  // 7 % slower backward than the first
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_TRUE(decisions[0].accepted) << text_of(decisions[0]);
  EXPECT_NEAR(decisions[0].effects.front().ratio, 0.030 / 0.0272, 0.01);
  EXPECT_FALSE(decisions[1].accepted) << text_of(decisions[1]);
  expect_it_replays();
  const std::string trend = file("logs/performance_trend.md");
  EXPECT_NE(trend.find("Combined Step TFLOPS"), std::string::npos) << trend;
  EXPECT_NE(trend.find("step +10."), std::string::npos) << trend;
  EXPECT_NE(trend.find("fwd +5"), std::string::npos) << trend;
  EXPECT_NE(trend.find("bwd -2."), std::string::npos) << trend;
  EXPECT_NE(file("manifest.yaml").find("primary_metric: combined_step_tflops"), std::string::npos);
  const std::string summary = file("rounds/round-2/summary.md");
  EXPECT_NE(summary.find("TFLOPS (geomean of combined_step_tflops)"), std::string::npos) << summary;
  EXPECT_EQ(summary.find("the engine's worker"), std::string::npos) << summary;
  EXPECT_NE(summary.find("a process of its own for every table"), std::string::npos) << summary;
  EXPECT_NE(report::markdown(report::load(campaign()).value()).find("label=large, backward"), std::string::npos);
  const FileMap exported = render_export(load_campaign(campaign()).value(), ExportFormat::kTurboView).value().files;
  EXPECT_NE(exported.at("logs/performance_trend.md").find("fwd +5"), std::string::npos);
  EXPECT_EQ(exported.at("rounds/round-2/artifacts/project_benchmark.csv"),
            file("rounds/round-2/artifacts/project_benchmark.csv"));
  const std::string theirs = exported.at("rounds/round-2/artifacts/benchmark.csv");
  EXPECT_EQ(theirs.find("nan"), std::string::npos) << theirs;
  EXPECT_TRUE(std::regex_search(theirs, std::regex(R"(,[0-9.]+,[0-9.e-]+,[0-9.]+,[0-9.e-]+\r\n)"))) << theirs;
  EXPECT_NE(theirs.find("label=large,1,64,64,64,PASS,60,60,60,0.013"), std::string::npos) << theirs;
  const std::string table = file("rounds/round-2/artifacts/project_benchmark.csv");
  EXPECT_TRUE(table.starts_with(std::string(project::frozen_header("gemm")) + "\n")) << table;
  EXPECT_EQ(table, *load_campaign(campaign())->rounds[0].last().evaluated->evaluation.table);
}

// 4.2e-6 GB/s: small numbers keep their digits, and the unit is the project's.
TEST_F(ProjectMetric, ATableOfBytesIsRecordedInBytes) {
  serve();
  const auto decisions = decisions_on({"TIME=0.008\n", "TIME=0.007\nOUT=90\n"});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_TRUE(decisions[0].accepted) << text_of(decisions[0]);
  EXPECT_NEAR(decisions[0].effects.front().ratio, 1.25, 0.01);
  EXPECT_FALSE(decisions[1].accepted) << text_of(decisions[1]);
  EXPECT_NE(decisions[1].reason.find("where the baseline is exact"), std::string::npos) << decisions[1].reason;
  expect_it_replays();
  EXPECT_NE(file("manifest.yaml").find("primary_metric: forward_gbps"), std::string::npos);
  const std::string trend = file("logs/performance_trend.md");
  EXPECT_EQ(trend.find("TFLOPS"), std::string::npos) << trend;
  EXPECT_NE(trend.find("Fwd Avg GB/s"), std::string::npos) << trend;
  EXPECT_NE(trend.find("| 0.00"), std::string::npos) << trend;
  const Result<report::Model> model = report::load(campaign());
  ASSERT_TRUE(model) << model.error().text();
  const std::string page = report::markdown(*model);
  EXPECT_EQ(page.find("FLOP/s"), std::string::npos) << page.substr(0, 3000);
  EXPECT_NE(page.find("B/s"), std::string::npos);
  EXPECT_NE(page.find("Ratios and speeds are those of forward_gbps"), std::string::npos) << page.substr(0, 3000);
  EXPECT_NE(page.find("Each draws its own inputs"), std::string::npos);
  EXPECT_EQ(page.find("fresh secret inputs"), std::string::npos);
}

// A wrong candidate is not timed: its table keeps the unit and the columns of the baseline's.
TEST_F(ProjectMetric, ACampaignWithAWrongRoundPassesItsOwnCheck) {
  std::string bench = kServing, text = kProject;
  const auto replace = [](std::string& in, const std::string& old, const std::string& now) {
    ASSERT_NE(in.find(old), std::string::npos) << old;
    in.replace(in.find(old), old.size(), now);
  };
  replace(bench, "OUT=inf", "OUT=inf CHECK=PASS");
  replace(bench, "-v out=\"$OUT\"", "-v out=\"$OUT\" -v check=\"$CHECK\"");
  replace(bench, "label,Check,Forward GB/s,Forward Time (ms),slowest,Ktoken/s,out_snr",
          project::frozen_header("memory").data());
  replace(bench,
          "\",PASS,\" sprintf(\"%.9g\", 4.2e-5 / t) \",\" t \",\" noisy(p99 * i) \",\" noisy(tokens / i) \",\" out",
          "\",\" check \",\" sprintf(\"%.9g\", 4.2e-5 / t) \",0,\" t \",\" out");
  write("bench.sh", bench);
  replace(text, "schema = \"gemm\"", "schema = \"memory\"");
  write("ridge-project.toml", text);
  write("kernel.sh", "TIME=0.010\n");
  const auto decisions = decisions_on({"TIME=0.005\nCHECK=FAIL\n", "TIME=0.008\n"});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_FALSE(decisions[0].accepted) << text_of(decisions[0]);
  EXPECT_TRUE(decisions[1].accepted) << text_of(decisions[1]);
  expect_it_replays();
  const std::string wrong = file("rounds/round-2/artifacts/benchmark.csv");
  EXPECT_TRUE(wrong.starts_with("label,Check,Forward GB/s,")) << wrong;
  EXPECT_NE(wrong.find("label=small,FAIL,nan,nan"), std::string::npos) << wrong;
  for (const LintFinding& one : lint_foreign(campaign())->findings) ADD_FAILURE() << one.path << ": " << one.what;
}

TEST_F(ProjectMetric, AColumnOfTheProjectsOwnCountsInItsDirection) {
  serve();
  const auto decisions = decisions_on({"TOKENS=0.00050\n",              // faster by what counts alone
                                       "TOKENS=0.00060\nTIME=0.012\n",  // and by a slower call
                                       "TIME=0.005\n"},                 // a faster call that does not count
                                      "column:Ktoken/s:higher");
  ASSERT_EQ(decisions.size(), 3u);
  EXPECT_TRUE(decisions[0].accepted) << text_of(decisions[0]);
  EXPECT_NEAR(decisions[0].effects.front().ratio, 50.0 / 42.0, 0.01);
  EXPECT_FALSE(decisions[1].accepted) << text_of(decisions[1]);
  EXPECT_NE(decisions[1].reason.find("forward is slower by 5 % or more"), std::string::npos) << decisions[1].reason;
  EXPECT_FALSE(decisions[2].accepted) << text_of(decisions[2]);
  expect_it_replays();
  const std::string trend = file("logs/performance_trend.md");
  EXPECT_NE(trend.find("| Ktoken/s | vs Baseline"), std::string::npos) << trend;
  EXPECT_NE(trend.find("| 0.0003"), std::string::npos) << trend;  // 0.00042 and half of it, in the geometric mean
  const std::string page = report::markdown(report::load(campaign()).value());
  EXPECT_TRUE(std::regex_search(page, std::regex("From 0.00029\\d Ktoken/s to 0.00035\\d Ktoken/s"))) << page;
  EXPECT_EQ(page.find("GB/s, geometric mean"), std::string::npos) << page;
}

TEST_F(ProjectMetric, AQuantileCountsAndLessOfItIsBetter) {
  serve();
  const auto decisions = decisions_on({"P99=0.020\n", "P99=0.040\nTIME=0.005\n"}, "latency_p99");
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_TRUE(decisions[0].accepted) << text_of(decisions[0]);
  EXPECT_NEAR(decisions[0].effects.front().ratio, 1.5, 0.01);
  EXPECT_FALSE(decisions[1].accepted) << text_of(decisions[1]);
  EXPECT_NE(file("logs/performance_trend.md").find("| latency_p99 us | vs Baseline"), std::string::npos);
  EXPECT_NE(file("rounds/round-2/summary.md").find("us (geomean of latency_p99)"), std::string::npos);
  const std::string page = report::markdown(report::load(campaign()).value());
  EXPECT_TRUE(std::regex_search(page, std::regex("From 42\\.\\d µs to 28\\.\\d µs"))) << page;
}

TEST_F(ProjectMetric, AMetricThatTheTableLacksIsRefusedWithTheColumnsItHas) {
  write("bench.sh", std::string(kBench).replace(std::string(kBench).find("BACKWARD=0.020"), 14, "BACKWARD=nan"));
  const record::CampaignSpec own = spec_of("");
  EXPECT_EQ(own.primary_metric, "forward_tflops");
  EXPECT_TRUE(validate_spec(own)) << validate_spec(own).error().text();
  for (const char* const metric :
       {"combined_step_tflops", "backward_tflops", "forward_gbps", "latency_p99", "column:Backward TFLOPS:higher",
        "column:Tokens/s:higher", "column:out_snr", "speed"}) {
    record::CampaignSpec spec = own;
    spec.primary_metric = metric;
    const Status sound = validate_spec(spec);
    ASSERT_FALSE(sound) << metric;
    EXPECT_NE(sound.error().message.find("forward_tflops"), std::string::npos) << sound.error().message;
  }
  record::CampaignSpec spec = own;
  spec.primary_metric = "combined_step_tflops";
  const std::string said = validate_spec(spec).error().message;
  EXPECT_NE(said.find("Forward Time (ms)"), std::string::npos) << said;
  EXPECT_EQ(said.find("Backward Time (ms)"), std::string::npos) << said;
  SystemClock clock;
  ASSERT_TRUE(create_campaign(campaign(), own, project::baseline_of(project()).value(), clock, {}));
  std::string manifest = file("manifest.yaml");
  const std::size_t at = manifest.find("primary_metric: forward_tflops");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(campaign() / "manifest.yaml")
      << manifest.replace(at, std::string("primary_metric: forward_tflops").size(), "primary_metric: latency_p50");
  const auto confirmed = confirm_campaign(campaign(), "test", clock);
  ASSERT_FALSE(confirmed);
  EXPECT_NE(confirmed.error().message.find("does not give primary_metric latency_p50"), std::string::npos);
}

TEST_F(ProjectMetric, TargetsAreOfWhatTheTableGives) {
  record::CampaignSpec spec = spec_of("");
  for (const char* const text : {"step 700 TFLOPS", "backward_tflops 3", "latency < 20 us", "hw_efficiency >= 90%"}) {
    spec.performance_target = parse_target(text).value();
    EXPECT_TRUE(validate_spec(spec)) << text;
  }
  for (const char* const text : {"step 700 GB/s", "latency_p99 < 20 us", "column:M:lower < 3"}) {
    spec.performance_target = parse_target(text).value();
    const Status sound = validate_spec(spec);
    ASSERT_FALSE(sound) << text;
    EXPECT_NE(sound.error().message.find("does not record"), std::string::npos) << sound.error().message;
  }
}

}  // namespace
}  // namespace ridge::campaign::test
