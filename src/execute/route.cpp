#include "execute/route.h"

#include <utility>

namespace ridge::execute {
namespace {

using record::WorkerTask;

// Tasks whose answers are of the library, not of a machine.
bool needs_no_machine(WorkerTask task) { return task == WorkerTask::kOperators; }

// Tasks that begin by building the candidates of the request.
bool builds_first(WorkerTask task) { return task == WorkerTask::kEvaluate || task == WorkerTask::kScreen; }

class RoutedExecutor final : public Executor {
 public:
  explicit RoutedExecutor(Routes routes) : routes_(std::move(routes)) {}

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    if (needs_no_machine(request.task)) return routes_.here->run(request, on_progress, should_stop);
    if (routes_.build && request.task == WorkerTask::kBuild)
      return routes_.build->run(request, on_progress, should_stop);
    if (routes_.build && builds_first(request.task)) {
      record::WorkerRequest ahead;
      ahead.task = WorkerTask::kBuild;
      ahead.backend = request.backend;
      ahead.cases = request.cases;
      ahead.candidates = request.candidates;
      ahead.protocol = request.protocol;
      ahead.cache_directory = request.cache_directory;
      ahead.time_limit = request.time_limit;
      const Result<record::WorkerResponse> built = routes_.build->run(ahead, on_progress, should_stop);
      // A candidate that does not build is told by what evaluates it; a machine that does not answer is told now.
      if (!built) return built.error();
    }
    return routes_.measure->run(request, on_progress, should_stop);
  }
  [[nodiscard]] double waited() const override {
    return routes_.measure->waited() + (routes_.build ? routes_.build->waited() : 0.0);
  }

 private:
  Routes routes_;
};

}  // namespace

std::unique_ptr<Executor> make_routed_executor(Routes routes) {
  return std::make_unique<RoutedExecutor>(std::move(routes));
}

}  // namespace ridge::execute
