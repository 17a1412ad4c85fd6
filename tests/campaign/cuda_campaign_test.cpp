// A whole campaign on a GPU that is not there: the shipped candidate, the search proposer, and a scripted worker whose
// kernels are as fast as their tile is large.
#include "base/files.h"
#include "campaign/verify.h"
#include "propose/proposer.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

const std::vector<std::string> kGpuShapes = {"m=1024 n=4096 k=4096 dtype=bf16 layout=nt",
                                             "m=2048 n=4096 k=4096 dtype=bf16 layout=nt"};

record::CampaignSpec gpu_spec() {
  record::CampaignSpec spec = make_spec();
  spec.id = "gemm_cuda_nvidia-h200_20260101";
  spec.backend = "cuda";
  spec.language = "cuda";
  spec.gpu = "nvidia-h200";
  spec.proposer = "search";
  spec.target_cases.clear();
  for (const std::string& shape : kGpuShapes) spec.target_cases.push_back(*record::parse_case("gemm " + shape));
  spec.max_iterations = 6;
  return spec;
}

record::Candidate shipped() {
  record::Candidate candidate;
  candidate.op = "gemm";
  candidate.backend = "cuda";
  candidate.name = "gemm_bf16_wgmma";
  for (const char* file : {"data/candidates/gemm_bf16_wgmma.cu", "src/ops/matmul/cuda_wgmma.cu"}) {
    const std::filesystem::path path = std::filesystem::path(RIDGE_SOURCE_DIR) / file;
    candidate.sources.push_back({path.filename().string(), *read_file(path)});
  }
  return candidate;
}

// Wide tiles are fast, a cluster gains a little, and everything else does nothing.
record::Candidate as_speed(const record::Candidate& candidate) {
  const auto value = [&](const char* name, std::int64_t otherwise) {
    const auto found = candidate.defines.find(name);
    return found == candidate.defines.end() ? otherwise : found->second;
  };
  const std::int64_t area = value("RIDGE_BLOCK_M", 128) * value("RIDGE_BLOCK_N", 128);
  return make_candidate(100 + area / 1024 + 3 * (value("RIDGE_CLUSTER_M", 1) - 1));
}

// The answer of the scripted worker of world.h about kernels of that speed, in the name of these candidates.
WorkerResponse evaluate_gpu(const WorkerRequest& request) {
  WorkerRequest asked = request;
  asked.incumbent = as_speed(*request.incumbent);
  asked.candidates = {as_speed(request.candidates.front())};
  // Candidates of one speed are still two measurements.
  WorkerResponse response = evaluate_on(asked, request.incumbent->id() + request.candidates.front().id());
  response.evaluation->incumbent = request.incumbent->id();
  response.evaluation->candidate = request.candidates.front().id();
  response.evaluation->build = make_build(request.candidates.front());
  response.evaluation->incumbent_artifact = make_build(*request.incumbent).artifact;
  response.evaluation->build.counts = {{"registers", 168}, {"spill_bytes", 0}};
  for (record::RooflinePoint& point : response.evaluation->roofline) {
    point.bound_time *= 5;  // the baseline reaches half of its bound
    point.fraction *= 5;
  }
  return response;
}

WorkerResponse screen_gpu(const WorkerRequest& request) {
  WorkerResponse response;
  for (const record::Candidate& candidate : request.candidates) {
    record::ScreenRow row;
    row.candidate = candidate.id();
    row.defines = candidate.defines;
    row.score = static_cast<double>(as_speed(candidate).defines.at("SPEED")) / 1000;
    response.screen.push_back(row);
  }
  return response;
}

WorkerResponse calibrate_gpu(const WorkerRequest& request) {
  WorkerRequest asked = request;
  asked.incumbent = as_speed(*request.incumbent);
  return calibrate(asked);
}

class CudaCampaign : public testing::Test {
 protected:
  void SetUp() override {
    script(executor);
    const auto keep = [this](auto answer) {
      return [this, answer](const WorkerRequest& request) {
        backends.insert(request.backend);
        return answer(request);
      };
    };
    WorkerResponse described;
    described.environment = record::Environment{{{"gpu.name", "NVIDIA H200"}, {"gpu.multiprocessors", "132"}}};
    executor.on(WorkerTask::kDescribe, described);
    executor.on(WorkerTask::kCeilings, keep([](const WorkerRequest&) {
                  WorkerResponse response;
                  response.ceilings = {{"fma_bf16", "FLOP/s", 1, 1e15, {1e15}, "not measured"},
                                       {"read_bandwidth", "B/s", 1, 4.8e12, {4.8e12}, "not measured"}};
                  return response;
                }));
    executor.on(WorkerTask::kCalibrate, keep(calibrate_gpu));
    executor.on(WorkerTask::kEvaluate, keep(evaluate_gpu));
    executor.on(WorkerTask::kScreen, keep(screen_gpu));
    executor.on(WorkerTask::kBench, keep([](const WorkerRequest&) { return WorkerResponse{}; }));
    ASSERT_TRUE(create_campaign(path(), gpu_spec(), shipped(), clock));
    ASSERT_TRUE(confirm_campaign(path(), "test", clock));
  }

  Result<RunResult> run() {
    EngineOptions options;
    options.directory = path();
    const auto proposer = propose::make_proposer("search");
    RIDGE_TRY(engine, Engine::open(std::move(options), Services{executor, **proposer, clock, git.get(), nullptr}));
    return engine->run();
  }
  [[nodiscard]] std::filesystem::path path() const { return directory.path() / "c"; }

  TempDir directory = TempDir::create("ridge-cuda-campaign").value();
  VirtualClock clock{1'767'225'600, 0.001};
  execute::ScriptedExecutor executor;
  std::unique_ptr<execute::Git> git = execute::make_fake_git(directory.path() / "c/src");
  std::set<std::string> backends;
};

TEST_F(CudaCampaign, RunsFromTheShippedKernelToTheReportAndStandsVerifyAndReplay) {
  const Result<RunResult> result = run();
  ASSERT_TRUE(result.ok()) << result.error().text();
  ASSERT_EQ(result->end, RunEnd::kDone) << result->reason;
  const State state = *load_campaign(path());
  EXPECT_EQ(backends, std::set<std::string>{"cuda"});  // nothing was asked about the processor
  EXPECT_EQ(state.rounds_closed(), 6);
  // Twice the start's tile: which of the wider ones a sweep of 20 looks at depends on how ties of the model are spread.
  const auto& defines = state.incumbent.candidate.defines;
  const std::int64_t rows = defines.contains("RIDGE_BLOCK_M") ? defines.at("RIDGE_BLOCK_M") : 128;
  EXPECT_GE(rows * defines.at("RIDGE_BLOCK_N"), 128 * 256);
  EXPECT_GT(state.product_of_accepted, 1.1);
  const auto verified = verify_campaign(path());
  ASSERT_TRUE(verified.ok()) << verified.error().text();
  EXPECT_TRUE(verified->ok()) << verified->text();
  const auto replayed = replay_campaign(path());
  ASSERT_TRUE(replayed.ok()) << replayed.error().text();
  EXPECT_TRUE(replayed->ok());
  EXPECT_GE(replayed->decisions, 6);
}

TEST_F(CudaCampaign, AGpuThatFallsOverIsNoFaultOfTheCandidate) {
  executor.on(WorkerTask::kEvaluate, [calls = 0](const WorkerRequest& request) mutable {
    WorkerResponse response = evaluate_gpu(request);
    if (++calls == 2) {  // the first is the look at the baseline
      response.evaluation->outcome = record::Outcome::kHarnessFault;
      response.evaluation->detail = "the device did not come back after a failed kernel";
      response.evaluation->sessions.clear();
    }
    return response;
  });
  ASSERT_TRUE(run().ok());
  const State state = *load_campaign(path());
  const std::vector<record::RoundSummary> rounds = history(state);
  ASSERT_GE(rounds.size(), 2u);
  EXPECT_EQ(rounds[0].outcome, record::Outcome::kHarnessFault);
  EXPECT_FALSE(rounds[0].accepted);
  EXPECT_EQ(state.rounds_closed(), 6);  // and the campaign goes on
}

}  // namespace
}  // namespace ridge::campaign::test
