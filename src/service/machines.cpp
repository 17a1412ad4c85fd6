#include "service/machines.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "execute/make_executor.h"
#include "execute/route.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

// One worker for all requests of a command.
class SharedWorker final : public execute::Executor {
 public:
  explicit SharedWorker(std::shared_ptr<execute::Executor> worker) : worker_(std::move(worker)) {}
  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const execute::OnProgress& on_progress,
                                     const execute::ShouldStop& should_stop) override {
    return worker_->run(request, on_progress, should_stop);
  }
  [[nodiscard]] std::size_t width() const override { return worker_->width(); }
  std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                      const execute::OnPartProgress& on_progress,
                                                      const execute::ShouldStop& should_stop) override {
    return worker_->run_all(requests, on_progress, should_stop);
  }
  [[nodiscard]] double waited() const override { return worker_->waited(); }

 private:
  std::shared_ptr<execute::Executor> worker_;
};

// A place that cannot be used, and why.
class Unusable final : public execute::Executor {
 public:
  explicit Unusable(Error why) : why_(std::move(why)) {}
  Result<record::WorkerResponse> run(const record::WorkerRequest&, const execute::OnProgress&,
                                     const execute::ShouldStop&) override {
    return why_;
  }

 private:
  Error why_;
};

execute::ExecutorSetting setting_of(const Context& context, const AskedBy& asked) {
  execute::ExecutorSetting setting;
  setting.worker_program = context.worker_program;
  setting.ridge_program = context.worker_program.parent_path() / "ridge";
  setting.cache_directory = context.cache_directory;
  setting.version = context.version;
  setting.owner = asked.owner;
  setting.scope = asked.scope;
  setting.wait_for_quiet = asked.wait_for_quiet;
  setting.on_note = context.on_note;
  return setting;
}

}  // namespace

Result<std::unique_ptr<execute::Executor>> worker_on(const Context& context, const campaign::Machines& machines,
                                                     Clock& clock, AskedBy asked) {
  execute::Routes routes;
  routes.here = local_executor(context);
  execute::ExecutorSetting setting = setting_of(context, asked);
  if (!machines.build.empty()) {
    if (!setting.owner.empty()) setting.owner += "-build";
    RIDGE_TRY(build, execute::make_executor(machines.build, clock, setting));
    routes.build = std::move(build);
    setting.owner = asked.owner;
  }
  setting.one_device = asked.one_device;
  const std::string measure = machines.measure.empty() ? "local" : machines.measure;
  RIDGE_TRY(measures, execute::make_executor(measure, clock, setting));
  routes.measure = std::move(measures);
  return execute::make_routed_executor(std::move(routes));
}

Result<std::unique_ptr<execute::Executor>> screens_on(const Context& context, const std::string& place, Clock& clock,
                                                      AskedBy asked, std::string_view queue) {
  execute::ExecutorSetting setting = setting_of(context, asked);
  setting.owner += fmt::format("-{}", queue);
  return execute::make_executor(place, clock, setting);
}

std::unique_ptr<execute::Executor> replica_on(const Context& context, const std::string& place, Clock& clock,
                                              AskedBy asked) {
  if (execute::is_default(place)) return local_executor(context);
  execute::ExecutorSetting setting = setting_of(context, asked);
  setting.owner += "-replica";
  setting.one_device = true;
  auto made = execute::make_executor(place, clock, setting);
  if (made) return std::move(*made);
  if (context.on_note) context.on_note(fmt::format("{} cannot be used: {}", place, made.error().text()));
  return std::make_unique<Unusable>(made.error());
}

std::unique_ptr<execute::Executor> no_replica() {
  return std::make_unique<Unusable>(make_error(ErrorCode::kUnsupported, "left out on request (--no-replica)"));
}

Result<Context> context_on(const Context& context, const campaign::Machines& machines, bool one_device) {
  if (!machines.elsewhere()) return context;
  const auto clock = std::make_shared<SystemClock>();
  RIDGE_TRY(worker, worker_on(context, machines, *clock, {.owner = {}, .scope = {}, .one_device = one_device}));
  Context there = context;
  there.make_worker = [clock, shared = std::shared_ptr<execute::Executor>(std::move(worker))] {
    return std::unique_ptr<execute::Executor>(std::make_unique<SharedWorker>(shared));
  };
  return there;
}

}  // namespace ridge::service
