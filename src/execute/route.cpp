#include "execute/route.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "execute/spread.h"

namespace ridge::execute {
namespace {

using record::WorkerTask;

// Tasks whose answers are of the library, not of a machine.
bool needs_no_machine(WorkerTask task) { return task == WorkerTask::kOperators; }

// Tasks that begin by building the candidates of the request.
bool builds_first(WorkerTask task) { return task == WorkerTask::kEvaluate || task == WorkerTask::kScreen; }

record::WorkerRequest build_ahead(const record::WorkerRequest& request) {
  record::WorkerRequest ahead;
  ahead.task = WorkerTask::kBuild;
  ahead.backend = request.backend;
  ahead.cases = request.cases;
  ahead.candidates = request.candidates;
  ahead.protocol = request.protocol;
  ahead.cache_directory = request.cache_directory;
  ahead.time_limit = request.time_limit;
  return ahead;
}

// Progress of some of several requests, told under their positions among all.
OnPartProgress of_parts(const std::vector<std::size_t>& parts, const OnPartProgress& on_progress) {
  if (!on_progress) return {};
  return [&](std::size_t one, const record::Progress& now) { on_progress(parts[one], now); };
}

class RoutedExecutor final : public Executor {
 public:
  explicit RoutedExecutor(Routes routes) : routes_(std::move(routes)) {}

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    if (needs_no_machine(request.task)) return routes_.here->run(request, on_progress, should_stop);
    if (routes_.build && request.task == WorkerTask::kBuild)
      return routes_.build->run(request, on_progress, should_stop);
    if (routes_.build && builds_first(request.task)) {
      const Result<record::WorkerResponse> built = routes_.build->run(build_ahead(request), on_progress, should_stop);
      // A candidate that does not build is told by what evaluates it; a machine that does not answer is told now.
      if (!built) return built.error();
    }
    if (routes_.screen && request.task == WorkerTask::kScreen) return screen(request, on_progress, should_stop);
    return routes_.measure->run(request, on_progress, should_stop);
  }
  [[nodiscard]] std::size_t width() const override { return routes_.measure->width(); }
  // At once where all go to `measure`: all are built ahead, then all are measured. A mixture goes one after another.
  std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                      const OnPartProgress& on_progress,
                                                      const ShouldStop& should_stop) override {
    if (!std::ranges::all_of(requests, [&](const auto& one) { return goes_to_measure(one.task); }))
      return Executor::run_all(requests, on_progress, should_stop);
    if (!routes_.build) return routes_.measure->run_all(requests, on_progress, should_stop);
    std::vector<std::optional<Error>> unbuilt = built_ahead(requests, on_progress, should_stop);
    std::vector<record::WorkerRequest> left;
    std::vector<std::size_t> parts;  // of what is left
    for (std::size_t part = 0; part < requests.size(); ++part) {
      if (unbuilt[part]) continue;
      left.push_back(requests[part]);
      parts.push_back(part);
    }
    std::vector<Result<record::WorkerResponse>> measured =
        routes_.measure->run_all(left, of_parts(parts, on_progress), should_stop);
    std::vector<Result<record::WorkerResponse>> answers;
    std::size_t next = 0;
    for (std::optional<Error>& error : unbuilt) {
      answers.push_back(error ? Result<record::WorkerResponse>(std::move(*error)) : std::move(measured[next++]));
    }
    return answers;
  }
  [[nodiscard]] double waited() const override {
    return routes_.measure->waited() + (routes_.build ? routes_.build->waited() : 0.0) +
           (routes_.screen ? routes_.screen->waited() : 0.0);
  }

 private:
  [[nodiscard]] bool goes_to_measure(WorkerTask task) const {
    return !needs_no_machine(task) && !(routes_.build && task == WorkerTask::kBuild) &&
           !(routes_.screen && task == WorkerTask::kScreen);
  }

  // By all devices at once; what is told is how far they are together.
  [[nodiscard]] Result<record::WorkerResponse> screen(const record::WorkerRequest& request,
                                                      const OnProgress& on_progress,
                                                      const ShouldStop& should_stop) const {
    const std::vector<record::WorkerRequest> parts = deal_screen(request, routes_.screen->width());
    std::vector<double> shares(parts.size());
    const auto show = [&](std::size_t part, const record::Progress& now) {
      shares[part] = now.fraction;
      record::Progress all = now;
      all.fraction = std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(parts.size());
      on_progress(all);
    };
    return join_screens(
        request, parts,
        routes_.screen->run_all(parts, on_progress ? OnPartProgress(show) : OnPartProgress(), should_stop));
  }

  // Why a request has no build; by part.
  std::vector<std::optional<Error>> built_ahead(std::span<const record::WorkerRequest> requests,
                                                const OnPartProgress& on_progress, const ShouldStop& should_stop) {
    std::vector<record::WorkerRequest> ahead;
    std::vector<std::size_t> parts;
    for (std::size_t part = 0; part < requests.size(); ++part) {
      if (!builds_first(requests[part].task)) continue;
      ahead.push_back(build_ahead(requests[part]));
      parts.push_back(part);
    }
    const auto built = routes_.build->run_all(ahead, of_parts(parts, on_progress), should_stop);
    std::vector<std::optional<Error>> unbuilt(requests.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!built[i]) unbuilt[parts[i]] = built[i].error();
    }
    return unbuilt;
  }

  Routes routes_;
};

}  // namespace

std::unique_ptr<Executor> make_routed_executor(Routes routes) {
  return std::make_unique<RoutedExecutor>(std::move(routes));
}

}  // namespace ridge::execute
