#include "campaign_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/environment.h"
#include "base/error.h"
#include "base/text.h"
#include "campaign/anchor.h"
#include "campaign/campaign.h"
#include "campaign/decide.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/standing.h"
#include "campaign/upstream.h"
#include "execute/lease.h"
#include "execute/project_executor.h"
#include "execute/quiet.h"
#include "profiling.h"
#include "propose/proposer.h"
#include "record/execution.h"
#include "record/json.h"
#include "report/report.h"
#include "say.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

std::string round_line(const record::RoundSummary& round) {
  // On one line of a terminal; the report has the whole reason.
  const std::string line = fmt::format("round {:<3} {:<12} {}: {}", round.round, record::name_of(round.state),
                                       round.hypothesis.title, round.reason);
  return painted_lines(cut_to(line, terminal_width(stderr)), stderr);
}

// Progress of the engine as one line, and each round's result as a line that stays.
class Narrator {
 public:
  explicit Narrator(const campaign::Engine*& engine) : engine_(engine) {}

  void show(const campaign::EngineProgress& progress) {
    note_new_rounds();
    record::Progress shown;
    const double total = progress.active + progress.seconds_left;
    shown.fraction = std::isfinite(total) && total > 0 ? progress.active / total : 0.0;
    shown.stage = fmt::format("round {} {}", progress.round, record::name_of(progress.phase));
    shown.detail = fmt::format("{}{}{} | {:.1f}x so far", progress.action, progress.detail.empty() ? "" : ", ",
                               progress.detail, progress.speedup);
    line_.show(shown);
  }

  void note_new_rounds() {
    if (engine_ == nullptr) return;
    const auto& rounds = engine_->state().rounds;
    while (told_ < rounds.size() && rounds[told_].closed())
      line_.note(round_line(campaign::summarise(rounds[told_++])));
  }

  // Rounds of an earlier process were told by it.
  void skip_closed() {
    const auto& rounds = engine_->state().rounds;
    while (told_ < rounds.size() && rounds[told_].closed()) ++told_;
  }

  void finish() {
    note_new_rounds();
    line_.clear();
  }

 private:
  const campaign::Engine*& engine_;
  ProgressLine line_;
  std::size_t told_ = 0;
};

// What neither a proposer nor a project's command may reach: the campaign, built objects, and the keys of both.
std::vector<fs::path> out_of_reach(const fs::path& directory, const RunOptions& run) {
  std::vector<fs::path> hidden = {fs::absolute(directory), fs::absolute(cache_directory()), default_state_directory()};
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
Result<std::unique_ptr<execute::Executor>> executor_of(const campaign::State& state, const fs::path& directory,
                                                       const RunOptions& run, std::string& digest) {
  if (!record::is_of_project(state.spec()))
    return make_profiling_executor(local_executor(), {.backend = state.spec().backend});
  RIDGE_TRY(project, project_of(state.spec(), directory));
  RIDGE_TRY(metric, record::parse_metric(state.spec().primary_metric));
  project.metric = std::move(metric);
  digest = project.digest;
  execute::ProjectOptions options;
  options.workspace = fs::absolute(directory) / "work";
  options.settled = campaign::sessions_settled;
  options.hidden = out_of_reach(directory, run);
  const bool stated = !project.profile.empty();
  if (record::is_extracted(state.spec()) && !project.extract.empty()) {
    options.whole = project;
    project = project::extracted_part(std::move(project));
  }
  return make_profiling_executor(execute::make_project_executor(std::move(project), std::move(options)),
                                 {.backend = state.spec().backend, .project = true, .stated = stated});
}

// After the end: the kernel that was accepted, or what else could be tried.
std::string next_command(const fs::path& directory, const campaign::State& state) {
  const bool accepted = std::any_of(state.rounds.begin(), state.rounds.end(),
                                    [](const auto& round) { return round.committed.has_value(); });
  if (accepted && record::is_of_project(state.spec())) return "ridge campaign hand-back " + directory.string();
  if (accepted) return "ridge campaign export-kernel " + directory.string();
  return fmt::format("ridge campaign extend {0} --budget 10m && ridge campaign resume {0}", directory.string());
}

int conclude(const fs::path& directory, const campaign::State& state, const campaign::RunResult& result) {
  const Result<report::Model> model = report::load(directory);
  if (!model) return fail(model.error());
  if (globals().json) {
    say("{}\n", report::json(*model));
  } else {
    say("{}\n", painted_lines(report::status_text(*model)));
    for (const std::string& line : campaign::standing(state)) say("{}\n", line);
    say("{}\n", result.reason);
    say("Report: {}\nCheck it: ridge campaign verify {}\n", (directory / report::kHtmlPath).string(),
        directory.string());
    if (result.end == campaign::RunEnd::kDone) say("Next: {}\n", next_command(directory, state));
  }
  switch (result.end) {
    case campaign::RunEnd::kDone: return kSuccess;
    case campaign::RunEnd::kPaused:
      std::fflush(stdout);
      if (result.waits)
        say(stderr, "Paused; state the next round with: ridge campaign propose {}\n", directory.string());
      else
        say_how_to_go_on(directory);
      return interruptions() > 0 ? kInterrupted : kPaused;
    case campaign::RunEnd::kInterrupted: return kInterrupted;
  }
  return kFault;
}

}  // namespace

void say_how_to_go_on(const fs::path& directory) {
  say(stderr, "Paused; continue with: ridge campaign resume {}\n", directory.string());
}

fs::path data_directory() {
  if (const char* own = std::getenv("RIDGE_DATA_DIR"); own != nullptr && *own != '\0') return own;
  std::error_code ignored;
  const fs::path installed =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "share" / "ridge";
  return fs::exists(installed, ignored) ? installed : fs::path(RIDGE_SOURCE_DIR) / "data";
}

std::vector<fs::path> own_knowledge() {
  std::vector<fs::path> folders;
  const char* named = std::getenv("RIDGE_KNOWLEDGE_PATH");
  for (const std::string& one : split(named == nullptr ? "" : named, ':')) {
    if (!one.empty()) folders.emplace_back(one);
  }
  return folders;
}

Command& add_run_options(Command& command, RunOptions& options) {
  return command
      .option("--wait-for-quiet TIME", options.wait_for_quiet,
              "Before measuring, wait so long in all while others use the processors; not charged to the "
              "budget, and measured all the same when it is over")
      .option("--sign-key FILE", options.sign_key,
              "A private key outside of the campaign that signs every line of its journal (ridge campaign key new)")
      .environment("--sign-key", campaign::kSignKeyVariable);
}

Status add_wishes(record::CampaignSpec& spec, const std::string& branch, const std::vector<std::string>& constraints) {
  if (!branch.empty()) spec.git_branch = branch;
  if (const std::string problem = campaign::branch_problem(spec); !problem.empty())
    return with_hint(invalid("{}", problem), "for instance --branch kernels/faster-gemm");
  return campaign::set_constraints(spec, constraints);
}

Result<Ran> drive_campaign(const fs::path& directory, const RunOptions& run, propose::Proposer& proposer,
                           std::optional<campaign::Standpoint> expected) {
  RIDGE_TRY(wait, parse_duration(run.wait_for_quiet));
  RIDGE_TRY(state, campaign::load_campaign(directory));
  campaign::EngineOptions options;
  RIDGE_TRY(inner, executor_of(state, directory, run, options.project));
  SystemClock clock;
  const record::Protocol& protocol = state.spec().protocol;
  const std::unique_ptr<execute::Executor> executor = execute::make_leased_executor(
      execute::make_quiet_executor(std::move(inner), clock, {wait, protocol.max_steal, protocol.max_foreign_load}),
      fs::path(cache_directory()) / "device" / state.spec().backend, state.spec().id);
  const campaign::Engine* running = nullptr;
  Narrator narrator(running);
  options.directory = directory;
  options.cache_directory = cache_directory();
  options.sign_key = run.sign_key;
  options.rounds = run.rounds;
  options.expected = std::move(expected);
  options.data = data_directory();
  options.knowledge = own_knowledge();
  options.experience = fs::weakly_canonical(directory).parent_path() / "experience";  // also of "."
  options.on_progress = [&](const campaign::EngineProgress& progress) { narrator.show(progress); };
  options.stop_level = [] {
    return interruptions() == 0   ? campaign::StopLevel::kNone
           : interruptions() == 1 ? campaign::StopLevel::kFinishUnit
                                  : campaign::StopLevel::kNow;
  };
  RIDGE_TRY(engine,
            campaign::Engine::open(std::move(options),
                                   campaign::Services{.executor = *executor, .proposer = proposer, .clock = clock}));
  running = engine.get();
  narrator.skip_closed();
  Result<campaign::RunResult> result = engine->run();
  narrator.finish();
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

int run_campaign(const fs::path& directory, const RunOptions& run) {
  const Result<campaign::State> state = campaign::load_campaign(directory);
  if (!state) return fail(state.error());
  if (run.rounds && *run.rounds < 1) return fail(invalid("--rounds {}: 1 or more are possible", *run.rounds));
  Result<std::unique_ptr<propose::Proposer>> proposer = propose::make_proposer(
      run.proposer.empty() ? state->spec().proposer : run.proposer, {.hidden = out_of_reach(directory, run)});
  if (!proposer) return fail(proposer.error());
  const Result<Ran> ran = drive_campaign(directory, run, **proposer);
  if (!ran) return fail(ran.error());
  return conclude(directory, ran->state, ran->result);
}

}  // namespace ridge::cli
