// A whole campaign on a GPU that is not there, with the search proposer.
#include "campaign/verify.h"
#include "gpu_world.h"
#include "places.h"
#include "propose/proposer.h"

namespace ridge::campaign::test {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

class CudaCampaign : public testing::Test {
 protected:
  void SetUp() override {
    script_gpu(executor);
    const auto keep = [this](WorkerTask task, auto answer) {
      executor.on(task, [this, answer](const WorkerRequest& request) {
        backends.insert(request.backend);
        return answer(request);
      });
    };
    keep(WorkerTask::kCeilings, ceilings_gpu);
    keep(WorkerTask::kCalibrate, calibrate_gpu);
    keep(WorkerTask::kEvaluate, evaluate_gpu);
    keep(WorkerTask::kScreen, screen_gpu);
    keep(WorkerTask::kBench, [](const WorkerRequest&) { return WorkerResponse{}; });
    ASSERT_TRUE(create_campaign(path(), gpu_spec(), shipped(), clock));
    ASSERT_TRUE(confirm_campaign(path(), "test", clock));
  }

  Result<RunResult> run() {
    EngineOptions options;
    options.data = source_dir() / "data";
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
  // Twice the start's tile: which of the wider ones a sweep of 20 looks at, and in how many rounds, is the engine's.
  const auto& defines = state.incumbent.candidate.defines;
  const auto side = [&](const char* name) { return defines.contains(name) ? defines.at(name) : 128; };
  EXPECT_GE(side("RIDGE_BLOCK_M") * side("RIDGE_BLOCK_N"), 128 * 256);
  EXPECT_GT(state.product_of_accepted, 1.1);
  const auto verified = verify_campaign(path());
  ASSERT_TRUE(verified.ok()) << verified.error().text();
  EXPECT_TRUE(verified->ok()) << verified->text();
  const auto replayed = replay_campaign(path());
  ASSERT_TRUE(replayed.ok()) << replayed.error().text();
  EXPECT_TRUE(replayed->ok());
  EXPECT_GT(replayed->decisions, 1);
  EXPECT_EQ(replayed->decisions, state.rounds_closed());
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
  EXPECT_GE(state.rounds_closed(), 3);  // and the campaign goes on
  EXPECT_GT(state.product_of_accepted, 1.1);
}

}  // namespace
}  // namespace ridge::campaign::test
