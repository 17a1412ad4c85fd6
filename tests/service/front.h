// A front for tests: a context whose worker is a script, and which keeps what it is told.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "campaign/world.h"
#include "places.h"
#include "service/context.h"

namespace ridge::service::test {

// The scripted worker of a campaign without a compiler or a device (campaign/world.h), with what drafts ask for as
// well.
class Front {
 public:
  Front() : folder_(fast_directory()) {
    campaign::test::script(worker);
    record::OperatorInfo gemm;
    gemm.name = "gemm";
    gemm.target_cases = {*record::parse_case("gemm m=64 n=64 k=64")};
    record::WorkerResponse operators;
    operators.operators = {gemm};
    worker.on(record::WorkerTask::kOperators, operators);
    context.data_directory = source_dir() / "data";
    context.cache_directory = folder_.path() / "cache";
    context.worker_program = "/nonexistent/ridge-worker";
    context.version = "test";
    context.make_worker = [this]() -> std::unique_ptr<execute::Executor> { return std::make_unique<Lent>(worker); };
    context.on_progress = [this](const record::Progress& one) { progress.push_back(one); };
    context.on_settled = [this] { ++settled; };
    context.on_note = [this](std::string_view line) { notes.emplace_back(line); };
    context.on_round = [this](const record::RoundSummary& one) { rounds.push_back(one); };
    context.on_campaign = [this](const record::CampaignProgress& one) { steps.push_back(one); };
    context.stops = [this] { return stops; };
  }
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  [[nodiscard]] std::filesystem::path path() const { return folder_.path(); }

  execute::ScriptedExecutor worker;
  Context context;
  int stops = 0, settled = 0;
  std::vector<record::Progress> progress;
  std::vector<std::string> notes;
  std::vector<record::RoundSummary> rounds;
  std::vector<record::CampaignProgress> steps;

 private:
  // In memory where that exists: journals are written durably, and nothing is measured.
  static TempDir fast_directory() {
    if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);
    return TempDir::create("ridge-service").value();
  }

  class Lent final : public execute::Executor {
   public:
    explicit Lent(execute::Executor& owner) : owner_(owner) {}
    Result<record::WorkerResponse> run(const record::WorkerRequest& request, const execute::OnProgress& on_progress,
                                       const execute::ShouldStop& should_stop) override {
      if (should_stop && should_stop()) return make_error(ErrorCode::kConflict, "stopped on request");
      return owner_.run(request, on_progress, should_stop);
    }

   private:
    execute::Executor& owner_;
  };

  TempDir folder_;
};

}  // namespace ridge::service::test
