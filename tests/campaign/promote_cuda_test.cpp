// Promotion of what a campaign on a GPU won, end to end with a worker that is scripted: from the shipped start to the
// library's kernel, its tuned table and back, and everything that is refused on the way.
#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "campaign/files.h"
#include "campaign/promote_proof.h"
#include "gpu_world.h"
#include "places.h"
#include "record/kernel_description.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Defines = std::map<std::string, std::int64_t>;

constexpr const char* kKernel = "src/ops/matmul/cuda_wgmma.cu";
constexpr const char* kStart = "data/candidates/gemm_bf16_wgmma.cu";
constexpr const char* kTable = "data/tuned/nvidia-h200.jsonl";
const Defines kWide = {{"RIDGE_BLOCK_N", 256}};  // among none of the configurations below
const Defines kByHand = {{"RIDGE_BLOCK_N", 224}};

// A device with the library's answers: what dispatch runs, checks, registers and benchmarks.
struct Machine {
  execute::ScriptedExecutor executor;
  std::string device = "NVIDIA H200", runs = "cuda_wgmma/pp_128x192", forced_by;
  record::Outcome checked = record::Outcome::kPass;
  double registers = 168, spills = 0;
  std::vector<double> low = {1.2, 0.99};  // of the interval, by shape
  std::vector<std::string> notes;

  Machine() {
    executor.on(WorkerTask::kDescribe, [this](const WorkerRequest&) {
      WorkerResponse response;
      response.environment = record::Environment{{{"cpu.features", "avx2 fma f16c"}}};
      if (!device.empty()) response.environment->facts["gpu.name"] = device;
      return response;
    });
    executor.on(WorkerTask::kExplain, [this](const WorkerRequest& request) { return explain(request); });
    executor.on(WorkerTask::kCheck, [this](const WorkerRequest& request) {
      WorkerResponse response;
      record::CheckReport report;
      report.subject = request.candidates.empty() ? request.implementations.at(0) : request.candidates[0].name;
      report.rows = make_checks(checked, {"m=1 n=1 k=8", "m=129 n=64 k=64"});
      report.rows[0].outcome = record::Outcome::kNotClaimed;
      response.checks = {report};
      return response;
    });
    executor.on(WorkerTask::kBuild, [this](const WorkerRequest& request) {
      WorkerResponse response;
      response.builds = {make_build(request.candidates.at(0))};
      response.builds[0].counts = {{"registers", registers}, {"spill_bytes", spills}};
      return response;
    });
    executor.on(WorkerTask::kBench, [this](const WorkerRequest& request) { return bench(request); });
  }

  [[nodiscard]] WorkerResponse explain(const WorkerRequest& request) const {
    WorkerResponse response;
    for (const record::Case& one : request.cases) {
      record::Explanation explanation;
      explanation.label = one.label();
      explanation.forced_by = forced_by;
      explanation.choice = runs.substr(0, runs.find('/'));  // by its own choice
      explanation.runs = runs;
      explanation.device = device;
      explanation.driver = "CUDA 13.0";
      explanation.bucket = one;
      explanation.rows.push_back({"cuda_wgmma" + std::string(one.op == "gemm_fp8" ? "_fp8" : ""), "own",
                                  "ops/matmul/cuda_wgmma.cu", true, true, "first"});
      response.explanations.push_back(explanation);
    }
    return response;
  }

  [[nodiscard]] WorkerResponse bench(const WorkerRequest& request) const {
    WorkerResponse response;
    for (std::size_t i = 0; i < request.cases.size(); ++i) {
      record::BenchRow row;
      row.subject = request.candidates.at(0).name;
      row.label = request.cases[i].label();
      row.median = 2e-5;
      row.sessions = 8;
      row.ratio = low.at(i) + 0.02;
      row.ratio_low = low.at(i);
      row.ratio_high = low.at(i) + 0.04;
      response.bench.push_back(row);
    }
    return response;
  }

  ProofTools tools() {
    return {[this](WorkerRequest request) { return executor.run(request); },
            {},
            [this](const std::string& line) { notes.push_back(line); }};
  }
  [[nodiscard]] std::vector<WorkerRequest> asked(WorkerTask task) const {
    std::vector<WorkerRequest> found;
    for (const WorkerRequest& one : executor.requests()) {
      if (one.task == task) found.push_back(one);
    }
    return found;
  }
};

class PromoteCuda : public testing::Test {
 protected:
  void SetUp() override {
    script_gpu(world.executor);
    world.baseline = shipped();
    const fs::path root = source_dir();
    write(kStart, *read_file(root / kStart));
    // With two configurations of its own, whatever was promoted since.
    std::string kernel = *read_file(root / kKernel);
    const std::size_t begin = kernel.find("[configs]\n") + 10, end = kernel.find("[variants]\n");
    ASSERT_LT(begin, end);
    kernel.replace(begin, end - begin,
                   "pp_128x192 = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, model = 0.9689 }\n"
                   "coop_128x224 = { RIDGE_BLOCK_N = 224, model = 1.1096 }\n");
    write(kKernel, kernel);
    write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Something else.\n");
    ASSERT_TRUE(git->init());
    commit_all();
  }
  // A campaign that ends with this candidate.
  void win(const record::Candidate& candidate) {
    record::Proposal proposal = make_proposal({candidate}, "RIDGE_BLOCK_N");
    for (const record::SourceFile& source : candidate.sources) proposal.hypothesis.planned_files.push_back(source.path);
    world.proposer = ScriptedProposer(one_per_round({proposal}));
    const Result<RunResult> done = world.run();
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(done->end, RunEnd::kDone) << done->reason;
    ASSERT_GT(world.state().incumbent.round, 1) << world.state().rounds.back().decision->reason;
  }
  void win(const Defines& defines) {
    record::Candidate candidate = shipped();
    candidate.defines = defines;
    win(candidate);
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((tree() / path).parent_path());
    std::ofstream(tree() / path, std::ios::binary) << text;
  }
  void commit_all() {
    const auto changed = git->changes();
    ASSERT_TRUE(changed && git->commit("state", *changed));
  }
  [[nodiscard]] fs::path tree() const { return world.base() / "tree"; }
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(tree())) {
      const std::string path = entry.path().lexically_relative(tree()).string();
      if (!path.starts_with(".git")) all[path] = entry.is_directory() ? "/" : *read_file(entry.path());
    }
    return all;
  }
  Result<PromotionPlan> prove(bool elsewhere = false) {
    ProofOptions options;
    options.names.date = "2026-01-01 00:00";
    options.elsewhere = elsewhere;
    return prove_promotion(world.path(), {}, tree(), *git, options, machine.tools());
  }
  std::string refusal() {
    const auto before = files();
    const auto planned = prove();
    EXPECT_EQ(files(), before);
    return planned ? "proved" : planned.error().text();
  }

  World world{one_per_round({}), gpu_spec()};
  Machine machine;
  std::unique_ptr<execute::Git> git = execute::make_git(world.base() / "tree");
};

TEST_F(PromoteCuda, ValuesThatWonAreALineOfTheLibrarysKernel) {
  win(kWide);
  const auto before = files();
  const auto plan = prove();
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(files(), before) << "proving writes nothing";
  const record::Promotion& promotion = plan->promotion;
  EXPECT_EQ(promotion.kernel, kKernel);
  EXPECT_EQ(promotion.implementation, "cuda_wgmma");
  EXPECT_EQ(promotion.configuration, "block_n256");
  EXPECT_TRUE(promotion.new_configuration);
  EXPECT_FALSE(promotion.new_source);
  ASSERT_TRUE(apply_promotion(*plan, tree()));

  const std::string text = *read_file(tree() / kKernel);
  const std::string line = fmt::format("block_n256 = {{ RIDGE_BLOCK_N = 256, promoted = \"{}, {:.2f}x\" }}\n",
                                       promotion.campaign, promotion.speedup);
  EXPECT_THAT(text, HasSubstr(line));
  EXPECT_EQ(*record::text_without_configs(text), *record::text_without_configs(before.at(kKernel)));
  EXPECT_EQ(*read_file(tree() / kStart), before.at(kStart));
  const auto table = record::parse_tuned(*read_file(tree() / kTable), kTable);
  ASSERT_TRUE(table) << table.error().text();
  ASSERT_EQ(table->size(), 1u) << "the second shape is not faster";
  EXPECT_EQ(table->at(0).device, "NVIDIA H200");
  EXPECT_EQ(table->at(0).configuration, "block_n256");
  EXPECT_EQ(table->at(0).over, "cuda_wgmma/pp_128x192");
  EXPECT_EQ(table->at(0).libraries, "cuda_wgmma " + *record::kernel_version(before.at(kKernel)))
      << "what was measured among the others still counts";
  EXPECT_THAT(*read_file(tree() / "CHANGELOG.md"),
              HasSubstr("on nvidia-h200; dispatch takes it on 1 of its 2 shapes."));
  const std::string page = *read_file(tree() / "src/ops/matmul/promotions/gemm_cuda_nvidia-h200_20260101.md");
  EXPECT_THAT(page, HasSubstr(world.state().last_hash));
  EXPECT_THAT(page, HasSubstr("| gemm on cuda (nvidia-h200) |"));

  const auto found = find_promotion(tree(), "block_n256");
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_TRUE(revert_promotion(*found, tree()));
  EXPECT_EQ(files(), before);
}

// What was checked and measured is what the library will build: the start around the kernel with the new line in it.
TEST_F(PromoteCuda, TheWinnerIsHeldAgainstWhatDispatchRuns) {
  win(kWide);
  ASSERT_TRUE(prove());
  const auto checks = machine.asked(WorkerTask::kCheck), benches = machine.asked(WorkerTask::kBench);
  ASSERT_EQ(checks.size(), 1u);
  ASSERT_EQ(benches.size(), 1u);
  EXPECT_EQ(checks[0].backend, "cuda");
  EXPECT_TRUE(checks[0].cases.at(0).params.empty()) << "the operator's own cases";
  const record::Candidate& own = benches[0].candidates.at(0);
  EXPECT_EQ(own.defines, kWide);
  EXPECT_EQ(own.sources[0], shipped().sources[0]);
  EXPECT_THAT(own.sources[1].text, HasSubstr("block_n256 = {"));
  EXPECT_THAT(own.sources[1].text, HasSubstr("#include \"ridge/kernel/"));
  EXPECT_EQ(benches[0].versus, "cuda_wgmma/pp_128x192");
  EXPECT_THAT(benches[0].implementations, ElementsAre("cuda_wgmma/pp_128x192"));
  EXPECT_EQ(benches[0].cases, gpu_spec().target_cases);
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("1 check cases passed"), HasSubstr("168 registers of 168")));
}

TEST_F(PromoteCuda, OneThatWasEnteredByHandGetsItsCampaign) {
  win(kByHand);
  machine.runs = "cuda_wgmma/coop_128x224";
  const auto before = files();
  const auto plan = prove();
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan->promotion.configuration, "coop_128x224");
  EXPECT_TRUE(machine.asked(WorkerTask::kBench).empty()) << "it is what runs there";
  ASSERT_TRUE(apply_promotion(*plan, tree()));
  const auto kernel = record::parse_kernel(*read_file(tree() / kKernel));
  EXPECT_THAT((*kernel)->find("coop_128x224")->promoted, HasSubstr("gemm_cuda_nvidia-h200_20260101, 1."));
  EXPECT_EQ((*kernel)->find("coop_128x224")->model, 1.1096);
  EXPECT_FALSE(fs::exists(tree() / kTable));
  ASSERT_TRUE(revert_promotion(plan->promotion, tree()));
  EXPECT_EQ(files(), before);
}

TEST_F(PromoteCuda, AChangedKernelMapsOntoTheLibrarysFile) {
  record::Candidate changed = shipped();
  changed.defines = kWide;
  changed.sources[1].text += "// faster\n";
  win(changed);
  const auto before = files();
  const auto plan = prove();
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_TRUE(plan->promotion.new_source);
  EXPECT_THAT(plan->ops, ElementsAre("gemm", "gemm_fp8"));
  ASSERT_TRUE(apply_promotion(*plan, tree()));
  const std::string text = *read_file(tree() / kKernel);
  EXPECT_TRUE(text.ends_with("// faster\n"));
  EXPECT_THAT(text, HasSubstr("#include \"../../device/cuda/kernel/"));
  EXPECT_THAT(text, Not(HasSubstr("#include \"ridge/kernel/")));
  ASSERT_TRUE(revert_promotion(plan->promotion, tree()));
  EXPECT_EQ(files(), before);

  Machine built;
  ASSERT_TRUE(check_built(*plan, built.tools()));
  std::vector<std::string> subjects;
  for (const WorkerRequest& one : built.asked(WorkerTask::kCheck)) {
    subjects.push_back(one.cases.at(0).op + " " + one.implementations.at(0));
  }
  EXPECT_THAT(subjects, ElementsAre("gemm cuda_wgmma/block_n256", "gemm cuda_wgmma", "gemm_fp8 cuda_wgmma_fp8"));
  EXPECT_THAT(built.notes, ::testing::Contains(HasSubstr("dispatch still runs cuda_wgmma/pp_128x192")));
  built.checked = record::Outcome::kWrong;
  const Status wrong = apply_promotion(*plan, tree(), {}, [&] { return check_built(*plan, built.tools()); });
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text(), HasSubstr("cuda_wgmma/block_n256 is WRONG"));
  EXPECT_EQ(files(), before);
}

// What runs there is the source of before.
TEST_F(PromoteCuda, AChangedKernelIsMeasuredWhereItsConfigurationRunsAlready) {
  machine.runs = "cuda_wgmma/coop_128x224";
  record::Candidate changed = shipped();
  changed.defines = kByHand;
  changed.sources[1].text += "// faster\n";
  win(changed);
  const auto plan = prove();
  ASSERT_TRUE(plan) << plan.error().text();
  const auto benches = machine.asked(WorkerTask::kBench);
  ASSERT_EQ(benches.size(), 1u);
  EXPECT_EQ(benches[0].versus, machine.runs);
  EXPECT_EQ(benches[0].candidates.at(0).name, machine.runs + "+changed");
  ASSERT_EQ(plan->promotion.shapes.size(), 2u);
  EXPECT_NEAR(plan->promotion.shapes[0].ratio, 1.22, 1e-9);
  EXPECT_FALSE(plan->promotion.shapes[0].tuned);  // dispatch runs it without a line
}

TEST_F(PromoteCuda, OnePromotionAtATimeWorksOnATree) {
  {
    const auto first = TreeLock::acquire(tree());
    ASSERT_TRUE(first) << first.error().text();
    EXPECT_THAT(TreeLock::acquire(tree()).error().text(), HasSubstr("another ridge promote works on"));
  }
  EXPECT_TRUE(TreeLock::acquire(tree()));
}

TEST_F(PromoteCuda, AChangedStartIsNoSourceOfTheLibrary) {
  record::Candidate changed = shipped();
  changed.defines = kWide;
  changed.sources[0].text += "// faster\n";
  win(changed);
  EXPECT_THAT(refusal(), HasSubstr("the campaign changed gemm_bf16_wgmma.cu, which is no source of the library: only "
                                   "ops/matmul/cuda_wgmma.cu is"));
  EXPECT_THAT(refusal(), HasSubstr("export-kernel"));
}

TEST_F(PromoteCuda, RefusesOtherSourcesOtherDevicesAndADirtyTree) {
  win(kWide);
  const std::string start = *read_file(tree() / kStart), kernel = *read_file(tree() / kKernel);
  write(kStart, start + "// changed\n");
  commit_all();
  EXPECT_THAT(refusal(), HasSubstr("data/candidates/gemm_bf16_wgmma.cu is not what the campaign began from"));
  write(kStart, start);
  write(kKernel, kernel + "// changed\n");
  commit_all();
  EXPECT_THAT(refusal(), HasSubstr("src/ops/matmul/cuda_wgmma.cu is not what the campaign began from"));
  write(kKernel, kernel);
  commit_all();

  write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Mine.\n");
  EXPECT_THAT(refusal(), HasSubstr("CHANGELOG.md has changes that are not committed"));
  commit_all();
  machine.device = "NVIDIA H100 80GB HBM3";
  EXPECT_THAT(refusal(), HasSubstr("was measured on nvidia-h200; this is nvidia-h100-80gb-hbm3"));
  machine.device.clear();
  EXPECT_THAT(refusal(), HasSubstr("was measured on nvidia-h200; this machine has none"));
  EXPECT_THAT(refusal(), HasSubstr("--dry-run shows what would be edited"));
}

TEST_F(PromoteCuda, WithoutTheDeviceAPlanSaysThatNothingWasMeasured) {
  win(kWide);
  machine.device.clear();
  const auto plan = prove(true);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_THAT(promotion_diff(plan->promotion), HasSubstr("+ block_n256 = { RIDGE_BLOCK_N = 256, promoted = "));
  EXPECT_THAT(promotion_diff(plan->promotion), Not(HasSubstr("data/tuned")));
  EXPECT_TRUE(plan->promotion.shapes.empty());
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("Not checked and not measured")));
  for (const WorkerTask task : {WorkerTask::kCheck, WorkerTask::kBuild, WorkerTask::kBench}) {
    EXPECT_TRUE(machine.asked(task).empty());
  }
}

TEST_F(PromoteCuda, RefusesWhatIsWrongSpillsOrWasNotMeasured) {
  win(kWide);
  machine.checked = record::Outcome::kWrong;
  EXPECT_THAT(refusal(), HasSubstr("cuda_wgmma/block_n256 is WRONG on m=129 n=64 k=64"));
  machine.checked = record::Outcome::kDeclined;
  EXPECT_THAT(refusal(), HasSubstr("no check case is in its scope"));
  machine.checked = record::Outcome::kPass;
  machine.spills = 64;
  EXPECT_THAT(refusal(), HasSubstr("cuda_wgmma/block_n256: spill_bytes is 64"));
  machine.spills = 0;
  machine.registers = 169;
  EXPECT_THAT(refusal(), HasSubstr("takes 169 registers, 168 are allowed"));
  machine.registers = 168;
  machine.forced_by = "environment RIDGE_GEMM_BACKEND";
  EXPECT_THAT(refusal(), HasSubstr("the choice is forced by environment RIDGE_GEMM_BACKEND"));
  machine.forced_by.clear();
  machine.executor.on(WorkerTask::kBench, [this](const WorkerRequest& request) {
    WorkerResponse response = machine.bench(request);
    response.bench.pop_back();
    return response;
  });
  EXPECT_THAT(refusal(), HasSubstr("1 of 2 shapes were measured"));
}

TEST_F(PromoteCuda, RefusesAForgedRecord) {
  win(kWide);
  std::string journal = *read_file(world.path() / kJournalFile);
  const std::size_t at = journal.find("\"accepted\":true");
  ASSERT_NE(at, std::string::npos);
  journal.replace(at, 15, "\"accepted\":false");
  std::ofstream(world.path() / kJournalFile, std::ios::binary) << journal;
  EXPECT_THAT(refusal(), HasSubstr("line"));
  EXPECT_TRUE(machine.executor.requests().empty());
}

}  // namespace
}  // namespace ridge::campaign::test
