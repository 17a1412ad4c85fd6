#include "service/campaign_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "campaign/anchor.h"
#include "campaign/decide.h"
#include "campaign/machines.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/upstream.h"
#include "execute/lease.h"
#include "execute/make_executor.h"
#include "execute/project_executor.h"
#include "execute/quiet.h"
#include "execute/route.h"
#include "record/execution.h"
#include "report/report.h"
#include "service/devices.h"
#include "service/duration.h"
#include "service/earlier_looks.h"
#include "service/machines.h"
#include "service/profiling.h"
#include "service/progress.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// What the engine does, as a stream: every front's progress, each closed round once, and progress.json.
class Narrator {
 public:
  Narrator(const Context& context, const fs::path& directory, const campaign::State& state, Clock& clock)
      : context_(context), file_(directory, state, clock) {}

  // Rounds of an earlier process were told by it.
  void begin(const campaign::Engine& engine) {
    engine_ = &engine;
    while (has_closed_round()) ++told_;
  }

  void show(const campaign::EngineProgress& progress) {
    if (engine_ == nullptr) return;
    tell_rounds();
    const auto written = file_.show(progress, engine_->state());
    if (written && context_.on_campaign) context_.on_campaign(*written);
    record::Progress shown;
    const double total = progress.active + progress.seconds_left;
    shown.fraction = std::isfinite(total) && total > 0 ? progress.active / total : 0.0;
    shown.stage = fmt::format("round {} {}", progress.round, record::name_of(progress.phase));
    shown.detail = fmt::format("{}{}{} | {:.1f}x so far", progress.action, progress.detail.empty() ? "" : ", ",
                               progress.detail, progress.speedup);
    context_.progress(shown);
  }

  void finish(const Result<campaign::RunResult>& result) {
    tell_rounds();
    context_.settled();
    if (result && result->end == campaign::RunEnd::kDone)
      file_.remove();
    else
      file_.end(result ? result->reason : result.error().message);
  }

 private:
  [[nodiscard]] bool has_closed_round() const {
    const auto& rounds = engine_->state().rounds;
    return told_ < rounds.size() && rounds[told_].closed();
  }
  void tell_rounds() {
    while (has_closed_round()) {
      const campaign::Round& round = engine_->state().rounds[told_++];
      if (context_.on_round) context_.on_round(campaign::summarise(round));
    }
  }

  const Context& context_;
  ProgressWriter file_;
  const campaign::Engine* engine_ = nullptr;
  std::size_t told_ = 0;
};

campaign::StopLevel stop_level(const Context& context) {
  const int asked = context.stops ? context.stops() : 0;
  return asked == 0   ? campaign::StopLevel::kNone
         : asked == 1 ? campaign::StopLevel::kFinishUnit
                      : campaign::StopLevel::kNow;
}

// What neither a proposer nor a project's command may reach: the campaign, built objects, and the keys of both.
std::vector<fs::path> out_of_reach(const Context& context, const fs::path& directory, const RunRequest& run) {
  std::vector<fs::path> hidden = {fs::absolute(directory), fs::absolute(context.cache_directory),
                                  default_state_directory()};
  const char* const variable = std::getenv(campaign::kSignKeyVariable);
  for (const std::string& key : {run.sign_key, std::string(variable == nullptr ? "" : variable)}) {
    if (!key.empty()) hidden.push_back(fs::absolute(key));
  }
  return hidden;
}

// The project's folder, or what the campaign extracted of it, which is written again where it is missing.
Result<project::Project> project_of(const record::CampaignSpec& spec, const fs::path& directory) {
  const std::optional<campaign::Upstream> upstream = campaign::upstream_of(spec);
  if (!upstream) return project::read_project(spec.kernel_source);
  return campaign::extract(*upstream, fs::absolute(directory) / campaign::kProjectFolder);
}

// ridge-worker for an operator of Ridgeline, a project's own commands for a project, whose digest goes into `digest`.
Result<std::unique_ptr<execute::Executor>> executor_of(const Context& context, const campaign::State& state,
                                                       const fs::path& directory, const RunRequest& run,
                                                       std::string& digest) {
  if (!record::is_of_project(state.spec()))
    return make_profiling_executor(context, local_executor(context), {.backend = state.spec().backend});
  RIDGE_TRY(project, project_of(state.spec(), directory));
  RIDGE_TRY(metric, record::parse_metric(state.spec().primary_metric));
  project.metric = std::move(metric);
  digest = project.digest;
  execute::ProjectOptions options;
  options.workspace = fs::absolute(directory) / "work";
  options.settled = campaign::sessions_settled;
  options.hidden = out_of_reach(context, directory, run);
  const bool stated = !project.profile.empty();
  if (record::is_extracted(state.spec()) && !project.extract.empty()) {
    options.whole = project;
    project = project::extracted_part(std::move(project));
  }
  return make_profiling_executor(context, execute::make_project_executor(std::move(project), std::move(options)),
                                 {.backend = state.spec().backend, .project = true, .stated = stated});
}

// How far a journal is, but for what every process writes when it goes on: a request that is asked again after a kill
// has the result of before it, and one after anything was recorded, a pause too, has not.
std::string scope_of(const campaign::State& state) {
  const auto pauses = std::count_if(state.occurrences.begin(), state.occurrences.end(),
                                    [](const auto& one) { return one.kind == record::EventKind::kPaused; });
  return fmt::format("{} {} {}", state.first_hash, state.costs.size(), pauses);
}

// Leased and quiet: one measurement at a time on this machine, and only when others leave it alone.
std::unique_ptr<execute::Executor> considerate(const Context& context, std::unique_ptr<execute::Executor> inner,
                                               const record::CampaignSpec& spec, double wait, Clock& clock) {
  return execute::make_leased_executor(
      execute::make_quiet_executor(std::move(inner), clock,
                                   {wait, spec.protocol.max_steal, spec.protocol.max_foreign_load}),
      execute::device_folder(context.cache_directory, spec.backend), spec.id);
}

}  // namespace

Status add_wishes(record::CampaignSpec& spec, const std::string& branch, const std::vector<std::string>& constraints) {
  if (!branch.empty()) spec.git_branch = branch;
  if (const std::string problem = campaign::branch_problem(spec); !problem.empty())
    return with_hint(invalid("{}", problem), "for instance --branch kernels/faster-gemm");
  return campaign::set_constraints(spec, constraints);
}

// After the end: the kernel that was accepted, or what else could be tried.
std::string next_command(const fs::path& directory, const campaign::State& state) {
  const bool accepted = std::any_of(state.rounds.begin(), state.rounds.end(),
                                    [](const auto& round) { return round.committed.has_value(); });
  if (accepted && record::is_of_project(state.spec())) return "ridge campaign hand-back " + directory.string();
  if (accepted) return "ridge campaign export-kernel " + directory.string();
  return fmt::format("ridge campaign extend {0} --budget 10m && ridge campaign resume {0}", directory.string());
}

Result<Ran> drive_campaign(const Context& context, const fs::path& directory, const RunRequest& run,
                           propose::Proposer& proposer, std::optional<campaign::Standpoint> expected) {
  RIDGE_TRY(wait, parse_duration(run.wait_for_quiet));
  RIDGE_TRY(state, campaign::load_campaign(directory));
  campaign::EngineOptions options;
  SystemClock clock;
  const campaign::Engine* running = nullptr;
  const campaign::Machines machines = campaign::machines_of(state.spec());
  std::unique_ptr<execute::Executor> executor, replica;
  std::function<Status(const record::Environment&)> check_devices;
  record::CampaignSpec again = state.spec();
  RIDGE_CHECK_OK(campaign::set_machines(again, machines));  // a manifest may be written by hand
  const AskedBy asked{"campaign-" + state.first_hash.substr(0, 16), [&] { return scope_of(running->state()); }, wait};
  // What measures beside the engine does so under this machine's lease; what does so elsewhere, under that of its own.
  const auto leased = [&](const std::string& place, std::unique_ptr<execute::Executor> worker) {
    return execute::is_local(place) ? considerate(context, std::move(worker), state.spec(), wait, clock)
                                    : std::move(worker);
  };
  if (machines.elsewhere()) {
    RIDGE_TRY(worker, worker_on(context, machines, clock, asked));
    const bool unnamed = execute::is_default(machines.measure);
    executor = make_profiling_executor(context, std::move(worker),
                                       {.backend = state.spec().backend, .elsewhere = unnamed ? "" : machines.measure});
  } else {
    RIDGE_TRY(inner, executor_of(context, state, directory, run, options.project));
    executor = std::move(inner);
  }
  executor = leased(machines.measure, std::move(executor));
  if (!execute::is_default(machines.screen)) {
    RIDGE_TRY(screens, screens_on(context, machines.screen, clock, asked, "screen"));
    screens = leased(machines.screen, std::move(screens));
    // What devices are is asked in a queue of its own. That of the looks cancels at its first question what an earlier
    // process left and nothing asks for; devices are asked before looks are, so that it would cancel those, too.
    check_devices = [&](const record::Environment& own) -> Status {
      RIDGE_TRY(devices, screens_on(context, machines.screen, clock, asked, "devices"));
      devices = leased(machines.screen, std::move(devices));
      return check_screens(context, *devices, machines.screen, state.spec().backend, own);
    };
    executor = execute::make_routed_executor(
        {.here = local_executor(context), .measure = std::move(executor), .screen = std::move(screens)});
  }
  if (!machines.replicate.empty()) {
    replica = run.no_replica ? no_replica()
                             : leased(machines.replicate, replica_on(context, machines.replicate, clock, asked));
  }
  Narrator narrator(context, directory, state, clock);
  options.directory = directory;
  options.cache_directory = context.cache_directory;
  options.sign_key = run.sign_key;
  options.rounds = run.rounds;
  options.expected = std::move(expected);
  options.data = context.data_directory;
  options.knowledge = context.knowledge;
  options.experience = fs::weakly_canonical(directory).parent_path() / "experience";  // also of "."
  if (!run.no_past)
    options.earlier = [&](const campaign::State& now) { return earlier_looks(context, now, kLooksForSearch); };
  options.on_progress = [&](const campaign::EngineProgress& progress) { narrator.show(progress); };
  options.stop_level = [&] { return stop_level(context); };
  RIDGE_TRY(engine,
            campaign::Engine::open(std::move(options), campaign::Services{.executor = *executor,
                                                                          .proposer = proposer,
                                                                          .clock = clock,
                                                                          .replica = replica.get(),
                                                                          .check_devices = std::move(check_devices)}));
  running = engine.get();
  narrator.begin(*engine);
  Result<campaign::RunResult> result = engine->run();
  narrator.finish(result);
  keep_looks(context, engine->state());
  if (!result) {
    Error stopped = result.error();
    stopped.hint += fmt::format("{}nothing is lost; continue with: ridge campaign resume {}",
                                stopped.hint.empty() ? "" : "; ", directory.string());
    return stopped;
  }
  RIDGE_TRY(model, report::load(directory));
  RIDGE_CHECK_OK(report::write(directory, model));
  return Ran{engine->state(), std::move(*result)};
}

Result<Ran> run_campaign(const Context& context, const fs::path& directory, const RunRequest& run) {
  RIDGE_TRY(state, campaign::load_campaign(directory));
  if (run.rounds && *run.rounds < 1) return invalid("--rounds {}: 1 or more are possible", *run.rounds);
  RIDGE_TRY(proposer, propose::make_proposer(run.proposer.empty() ? state.spec().proposer : run.proposer,
                                             {.hidden = out_of_reach(context, directory, run)}));
  return drive_campaign(context, directory, run, *proposer);
}

}  // namespace ridge::service
