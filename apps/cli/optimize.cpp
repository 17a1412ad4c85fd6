// ridge optimize: starts a campaign.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "campaign/anchor.h"
#include "campaign/campaign.h"
#include "campaign/columns.h"
#include "campaign/iterations.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/project_table.h"
#include "campaign/target.h"
#include "campaign/upstream.h"
#include "campaign_run.h"
#include "candidate_file.h"
#include "execute/project_device.h"
#include "execute/project_executor.h"
#include "project/project.h"
#include "propose/proposer.h"
#include "record/backend.h"
#include "record/configuration.h"
#include "record/execution.h"
#include "record/json.h"
#include "record/report.h"
#include "record/scope.h"
#include "roofline.h"
#include "say.h"
#include "stats/bounds.h"
#include "subcommands.h"
#include "worker_call.h"
#include "workspace_file.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct OptimizeOptions {
  std::string op, backend = "cpu", proposer = "search", budget, kernel, directory, target, project, workspace, metric,
                  timestamp_command, branch, mode;
  std::vector<std::string> words, defines, constraints;
  std::optional<std::int64_t> max_iterations, seed;
  std::int64_t threads = 1, planned = record::Protocol{}.max_decisions;
  double efficiency = 0.9, min_effect = 0.01, max_foreign_load = 0.1, max_steal = 0.05;
  bool yes = false, no_git = false;
  RunOptions run;
};

// What this machine's processor or GPU calls itself. No GPU is an error that says why.
Result<std::string> device_name(const std::string& backend) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  const record::Environment environment = response.environment.value_or(record::Environment{});
  const record::BackendInfo& info = record::backend_of_name(backend);
  const auto found = environment.facts.find(std::string(info.device));
  if (found != environment.facts.end()) return found->second;
  if (info.host) return backend;
  for (const record::Capability& one : response.capabilities) {
    if (one.name != info.capability) continue;
    return with_hint(make_error(ErrorCode::kUnsupported, "a campaign on {} needs a GPU: {}", backend, one.detail),
                     one.remedy);
  }
  return make_error(ErrorCode::kUnsupported, "a campaign on {} needs a GPU, and this build knows none", backend);
}

void show(const record::CampaignSpec& spec, const fs::path& directory) {
  say(stderr, "Campaign {} in {}\n", spec.id, directory.string());
  say(stderr, "  operator      {} on {} ({}), {} thread{}\n", spec.op, spec.backend, spec.gpu, spec.protocol.threads,
      spec.protocol.threads == 1 ? "" : "s");
  say(stderr, "  starts from   {}\n", spec.kernel_source);
  if (const auto upstream = campaign::upstream_of(spec))
    say(stderr, "  workspace     {}, in {}\n", campaign::text_of(*upstream),
        (directory / campaign::kProjectFolder).string());
  say(stderr, "  judged by     {}\n", spec.primary_metric);
  for (const record::Case& c : spec.target_cases) say(stderr, "  shape         {}\n", c.label());
  say(stderr, "  ends at       {:.0f} % of the measured roofline", 100 * spec.efficiency_target);
  if (spec.performance_target) say(stderr, ", or {}", campaign::format_target(*spec.performance_target));
  if (spec.wall_budget > 0) say(stderr, ", or after {}", format_duration(spec.wall_budget));
  if (spec.max_iterations) say(stderr, ", or after {} rounds", *spec.max_iterations);
  say(stderr, "\n  accepts       gains above {:.1f} %; chance of any false accept at most {:.0f} % in {} decision{}\n",
      100 * spec.protocol.min_effect, 100 * spec.protocol.alpha, spec.protocol.max_decisions,
      spec.protocol.max_decisions == 1 ? "" : "s");
  for (const std::string& one : campaign::constraints_of(spec)) say(stderr, "  keeps to      {}\n", one);
  if (spec.git_commit && spec.git_branch != "auto") say(stderr, "  commits to    {}\n", spec.git_branch);
  say(stderr, "  proposer      {}\n", spec.proposer);
  if (const auto key = campaign::signing_key_of(spec); key && *key) {
    say(stderr, "  signed by     {}\n", campaign::key_text(**key));
  }
}

// Where the memory bounds every shape, and the operator's table has bytes, a campaign is about those: FLOP would be
// tiny numbers that say nothing.
void judge_by_what_bounds(const std::vector<record::RooflineReport>& reports, record::CampaignSpec& spec) {
  const bool by_memory = std::ranges::all_of(reports, [](const record::RooflineReport& report) {
    return std::ranges::any_of(
        report.axes, [&](const record::RooflineAxis& axis) { return axis.name == report.bound && axis.unit == "B/s"; });
  });
  const bool has_bytes =
      campaign::metric_problem("forward_gbps", campaign::benchmark_header(spec.target_cases)).empty();
  if (by_memory && has_bytes) spec.primary_metric = "forward_gbps";
}

// What each target rests on: the bound of every shape, the measured fact behind it with its source, and of a GPU what
// the spec database cites for the same limit. The shapes get the operator's defaults on the way (dtype, layout), by
// which the worker names them.
Status cite_targets(const OptimizeOptions& options, record::CampaignSpec& spec) {
  const std::string on = record::backend_of_name(options.backend).host ? std::string() : options.backend;
  RIDGE_TRY(reports, rooflines(options.op, options.words, on, options.threads));
  std::string list;
  spec.target_cases.clear();
  for (const record::RooflineReport& report : reports) {
    RIDGE_TRY(one, record::parse_case(report.label));
    spec.target_cases.push_back(std::move(one));
    for (const record::RooflineAxis& axis : report.axes) {
      if (axis.name != report.bound) continue;
      std::string text =
          fmt::format("{}: no call is faster than {:.4g} us, bound by {} at {:.4g} {} <- {}", report.label,
                      1e6 * report.bound_time, axis.name, axis.peak, axis.unit, axis.source);
      if (!axis.cited.empty()) text += "; its documents say " + axis.cited;
      list += "- " + campaign::yaml_text(text) + "\n";
    }
  }
  if (!list.empty()) spec.extra[record::kTargetFactsKey] = list;
  judge_by_what_bounds(reports, spec);
  return ok_status();
}

// "prompt" or "--yes", or an error without a terminal to ask on.
Result<std::string> ask(const OptimizeOptions& options, const fs::path& directory) {
  if (options.yes) return std::string("--yes");
  const Error unanswered = with_hint(
      make_error(ErrorCode::kConflict, "the campaign is drafted in {} and waits for confirmation", directory.string()),
      fmt::format("edit {0}/manifest.yaml if you like, then: ridge campaign confirm {0} && ridge campaign resume {0}",
                  directory.string()));
  if (::isatty(STDIN_FILENO) != 1) return unanswered;
  say(stderr, "Start? [y]es, or [n]o to edit manifest.yaml first: ");
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "yes") return std::string("prompt");
  return unanswered;
}

// What of a spec is the same for an operator of Ridgeline and for a project.
Result<record::CampaignSpec> common_spec(const OptimizeOptions& options) {
  record::CampaignSpec spec;
  spec.op = options.op;
  spec.backend = options.backend;
  spec.proposer = options.proposer;
  if (options.seed && options.proposer != "search") {
    return with_hint(invalid("--seed {} is for the search, not for {}", *options.seed, options.proposer),
                     "leave it out, or the proposer");
  }
  if (options.seed) spec.proposer += fmt::format(":{}", *options.seed);
  spec.max_iterations = options.max_iterations;
  spec.efficiency_target = options.efficiency;
  spec.git_commit = !options.no_git;
  if (options.no_git && !options.branch.empty()) return invalid("--branch {} and --no-git: name one", options.branch);
  RIDGE_CHECK_OK(add_wishes(spec, options.branch, options.constraints));
  spec.protocol.threads = options.threads;
  spec.protocol.min_effect = options.min_effect;
  if (options.planned < 1 || options.planned > stats::kMostDecisions)
    return invalid("--planned {}: 1 to {} are possible", options.planned, stats::kMostDecisions);
  spec.protocol.max_decisions = options.planned;
  spec.protocol.max_foreign_load = options.max_foreign_load;
  spec.protocol.max_steal = options.max_steal;
  if (!options.budget.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.budget));
    spec.wall_budget = seconds;
  }
  if (!options.target.empty()) {
    RIDGE_TRY(target, campaign::parse_target(options.target));
    spec.performance_target = target;
  }
  RIDGE_TRY(proposer, propose::make_proposer(spec.proposer));  // refused now, not after the baseline was measured
  return spec;
}

Result<record::CampaignSpec> spec_of(const OptimizeOptions& options, const fs::path& kernel) {
  RIDGE_TRY(spec, common_spec(options));
  RIDGE_TRY(cases, cases_of(options.op, options.words));
  spec.target_cases = std::move(cases);
  if (!options.metric.empty()) {
    return with_hint(invalid("--metric {} is for the table of a project", options.metric),
                     "leave it out: an operator of Ridgeline is judged by the time of one call; or name --project DIR");
  }
  RIDGE_TRY(device, device_name(options.backend));
  spec.gpu = campaign::short_machine_name(device);
  spec.language = record::backend_of_name(options.backend).language;
  spec.kernel_source = options.kernel.empty() ? "shipped with ridge: " + kernel.filename().string() : kernel.string();
  RIDGE_CHECK_OK(cite_targets(options, spec));
  spec.id = campaign::default_campaign_id(spec, format_day(SystemClock().unix_time()));
  RIDGE_CHECK_OK(campaign::validate_spec(spec));
  return spec;
}

// Every target shape must be one that the kernel claims: a campaign is no place to find that out.
Status check_scope(const record::CampaignSpec& spec, const record::Candidate& baseline) {
  RIDGE_TRY(scope, record::scope_of(baseline));
  if (!scope) return ok_status();
  for (const record::Case& target : spec.target_cases) {
    RIDGE_TRY(outside, scope->excludes(target, {}));
    if (!outside) continue;
    return with_hint(invalid("{} does not claim {}: {}", baseline.name, target.text(), *outside),
                     "choose cases inside its ridge-scope, or widen that");
  }
  return ok_status();
}

int start(const OptimizeOptions& options, record::CampaignSpec spec, const record::Candidate& baseline) {
  if (const Status claimed = check_scope(spec, baseline); !claimed) return fail(claimed.error());
  const fs::path directory = options.directory.empty() ? fs::path("campaigns") / spec.id : fs::path(options.directory);
  SystemClock clock;
  if (const Status anchored = campaign::anchor_spec(spec, directory, campaign::sign_key_file(options.run.sign_key),
                                                    options.timestamp_command);
      !anchored)
    return fail(anchored.error());
  if (const auto created = campaign::create_campaign(directory, spec, baseline, clock, options.run.sign_key); !created)
    return fail(created.error());
  if (const std::optional<campaign::Upstream> upstream = campaign::upstream_of(spec)) {
    const auto project = campaign::extract(*upstream, fs::absolute(directory) / campaign::kProjectFolder);
    if (!project) return fail(project.error());
  }
  if (!globals().quiet) show(spec, directory);
  const Result<std::string> by = ask(options, directory);
  if (!by) return fail(by.error());
  if (const auto confirmed = campaign::confirm_campaign(directory, *by, clock); !confirmed)
    return fail(confirmed.error());
  return run_campaign(directory, options.run);
}

// `table`: what the project's benchmark printed; `source`: its folder.
Result<record::CampaignSpec> project_spec(const OptimizeOptions& options, const project::Project& project,
                                          const fs::path& source, const project::TableContents& table) {
  RIDGE_TRY(spec, common_spec(options));
  spec.backend = project.backend;
  spec.language = project.language;
  RIDGE_TRY(device, execute::device_of(project));
  spec.gpu = campaign::short_machine_name(device);
  spec.execution_mode = record::kRepoMode;
  spec.kernel_source = fs::absolute(source / project::kProjectFile).string();
  for (const std::string& label : project.shapes) {
    RIDGE_TRY(one, project::case_of(project.op, label));
    spec.target_cases.push_back(std::move(one));
  }
  spec.extra["test_command"] = campaign::yaml_text(quote_command(project.test));
  spec.extra["benchmark_command"] = campaign::yaml_text(quote_command(project.benchmark));
  campaign::describe_table(spec, table.columns, table.metrics, project.min_snr_db, project.snr_margin_db);
  spec.primary_metric = options.metric.empty() ? project::default_metric(table, project) : options.metric;
  if (!project.acceptance.empty())
    spec.extra["acceptance_command"] = campaign::yaml_text(quote_command(project.acceptance));
  spec.id = campaign::default_campaign_id(spec, format_day(SystemClock().unix_time()));
  RIDGE_CHECK_OK(campaign::validate_spec(spec));
  return spec;
}

// campaigns/<id> of the workspace; a second one on the same day gets a number.
fs::path free_folder(const fs::path& workspace, record::CampaignSpec& spec) {
  const std::string id = spec.id;
  std::error_code ignored;
  for (int number = 2; fs::exists(workspace / "campaigns" / spec.id, ignored); ++number)
    spec.id = fmt::format("{}-{}", id, number);
  return workspace / "campaigns" / spec.id;
}

// The campaign's folder and memory are the workspace's.
void place_in_workspace(OptimizeOptions& options, record::CampaignSpec& spec) {
  const fs::path folder =
      options.directory.empty() ? free_folder(options.workspace, spec) : fs::path(options.directory);
  options.directory = folder.string();
  spec.extra[campaign::kWorkspaceKey] = campaign::yaml_text(
      fs::weakly_canonical(options.workspace).lexically_relative(fs::weakly_canonical(folder)).string());
}

int optimize_project(OptimizeOptions options) {
  Result<project::Project> project = project::read_project(options.project);
  if (!project) return fail(project.error());
  const fs::path source = project->root;
  if (project->op != options.op)
    return fail(invalid("{} is about {}, not {}", options.project, project->op, options.op));
  if (options.branch.empty() && !options.no_git) options.branch = project->branch;
  options.constraints.insert(options.constraints.begin(), project->constraints.begin(), project->constraints.end());
  const Result<TempDir> folder = TempDir::create("ridge-table");
  if (!folder) return fail(folder.error());
  std::optional<campaign::Upstream> upstream;
  if (options.mode == record::kWorkspaceMode) {
    Result<campaign::Upstream> found = campaign::find_upstream(*project);
    if (!found) return fail(found.error());
    upstream = std::move(*found);
    project = campaign::extract_first(*upstream, folder->path() / campaign::kProjectFolder);
    if (!project) return fail(project.error());
    project = project::extracted_part(std::move(*project));
  }
  const Result<record::Candidate> baseline = project::baseline_of(*project);
  if (!baseline) return fail(baseline.error());
  if (const Status settable = record::check_tunables(*baseline); !settable) return fail(settable.error());
  const Result<execute::LookAtTable> table =
      execute::look_at_table(*project, folder->path() / "copy" / "a", [] { return interruptions() > 0; });
  if (!table)
    return fail(with_hint(table.error(), fmt::format("ridge handoff {} --project {}", options.op, options.project)));
  Result<record::CampaignSpec> spec = project_spec(options, *project, source, table->contents);
  if (!spec) return fail(spec.error());
  if (upstream) campaign::describe_upstream(*spec, *upstream);
  if (!options.workspace.empty()) place_in_workspace(options, *spec);
  return start(options, *spec, *baseline);
}

// Operator, cases, kernel and threads come from the workspace, and the campaign's memory is the workspace's.
int optimize_workspace(OptimizeOptions options) {
  if (!options.op.empty() || !options.kernel.empty() || !options.project.empty()) {
    return fail(with_hint(invalid("a workspace names operator, cases and kernel itself"),
                          "leave the operator, --kernel and --project out, or --workspace"));
  }
  const Result<record::Workspace> workspace = read_workspace(options.workspace);
  if (!workspace) return fail(workspace.error());
  if (!options.mode.empty()) {
    return fail(with_hint(invalid("--mode {} with --workspace", options.mode),
                          "leave --mode out: a folder of ridge workspace init is a copy already"));
  }
  if (!workspace->reference.empty()) {
    options.project = options.workspace;
    options.op = workspace->op;
    return optimize_project(std::move(options));
  }
  Result<WorkspaceSubject> subject = subject_of(options.workspace);
  if (!subject) return fail(subject.error());
  options.op = subject->workspace.op;
  options.words = subject->workspace.cases;
  options.backend = subject->kernel.backend;
  options.threads = subject->workspace.threads;
  options.kernel = (fs::path(options.workspace) / subject->workspace.kernel).string();
  for (const std::string& define : options.defines) {
    const Result<record::Candidate> one = candidate_of(options.op, options.kernel, {define});
    if (!one) return fail(one.error());
    subject->kernel.defines.insert(one->defines.begin(), one->defines.end());
  }
  Result<record::CampaignSpec> spec = spec_of(options, options.kernel);
  if (!spec) return fail(spec.error());
  place_in_workspace(options, *spec);
  return start(options, *spec, subject->kernel);
}

// The kernel to start from; the operator and the cases that it is for, where it says so and the user does not.
Result<fs::path> starting_kernel(OptimizeOptions& options) {
  std::optional<record::CampaignBlock> block;
  fs::path file = options.kernel;
  if (options.kernel.empty()) {
    RIDGE_TRY(shipped, shipped_kernel(options.op, options.backend));
    file = shipped.file;
    block = std::move(shipped.block);
  } else {
    RIDGE_TRY(text, read_file(file));
    RIDGE_TRY(own, record::parse_campaign_block(text));
    block = std::move(own);
  }
  if (!block) return file;
  options.op = block->op;
  if (options.words.empty()) {
    options.words = block->cases;
    return file;
  }
  for (const std::string& fixed : block->fixed()) {
    const std::string name = fixed.substr(0, fixed.find('=') + 1);
    const auto given = [&](const std::string& word) { return (" " + word).find(" " + name) != std::string::npos; };
    if (!std::any_of(options.words.begin(), options.words.end(), given)) options.words.push_back(fixed);
  }
  return file;
}

// --mode is what a project is worked on in; an operator of Ridgeline has no repository of its own.
Status check_mode(const OptimizeOptions& options) {
  if (options.mode.empty()) return ok_status();
  if (options.mode != record::kRepoMode && options.mode != record::kWorkspaceMode)
    return with_hint(invalid("--mode {} is not repo or workspace", options.mode), "ridge optimize --help");
  if (!options.project.empty() || !options.workspace.empty() || options.mode == record::kWorkspaceMode)
    return ok_status();
  return with_hint(
      invalid("--mode repo is for a project"),
      "name one with --project DIR, or leave it out; ridge promote puts what a campaign of an operator won "
      "into the library");
}

int optimize(OptimizeOptions options) {
  if (const Status known = check_mode(options); !known) return fail(known.error());
  if (!options.workspace.empty()) return optimize_workspace(options);
  if (options.op.empty())
    return fail(with_hint(invalid("no operator"), "name one, for instance gemm, or --workspace DIR"));
  if (!options.project.empty()) return optimize_project(options);
  if (const auto known = record::find_measured(options.backend, "campaigns on"); !known) return fail(known.error());
  const Result<fs::path> kernel = starting_kernel(options);
  if (!kernel && !record::backend_of_name(options.backend).host) return fail(kernel.error());
  Result<record::CampaignSpec> spec = spec_of(options, kernel ? *kernel : fs::path());
  if (!spec) return fail(spec.error());
  if (!kernel) return fail(kernel.error());
  Result<record::Candidate> baseline = candidate_of(options.op, kernel->string(), options.defines);
  if (!baseline) return fail(baseline.error());
  if (baseline->backend != options.backend) {
    return fail(
        with_hint(invalid("{} is a kernel for {}, not for {}", kernel->string(), baseline->backend, options.backend),
                  "use --on " + baseline->backend));
  }
  return start(options, *spec, *baseline);
}

}  // namespace

int run_demo_campaign(const fs::path& directory, const std::string& budget, bool use_git, const RunOptions& run) {
  OptimizeOptions options;
  options.op = "gemm";
  options.budget = budget;
  options.directory = directory.string();
  options.yes = true;
  options.no_git = !use_git;
  options.run = run;
  return optimize(std::move(options));
}

void define_optimize(Command root) {
  auto options = std::make_shared<OptimizeOptions>();
  Command command = root.subcommand("optimize", "Take a kernel to the limit of this machine in verified rounds");
  add_run_options(command, options->run);
  command.positional("operator", options->op, "Operator, for instance gemm, or a shipped kernel: gemm_bf16", false)
      .positional("case", options->words, "Shapes, for instance m=256,512 n=512 k=512 (default: the operator's own)",
                  false)
      .option("--on cpu|cuda", options->backend, "Backend: cpu, or cuda for the GPU of this machine")
      .option("--project DIR", options->project,
              "A project's folder or ridge-project.toml, instead of an operator of Ridgeline")
      .option("--mode repo|workspace", options->mode,
              "Of a project: repo copies its folder as it is (default); workspace extracts the commit that HEAD names "
              "into the campaign, and every accepted round passes in the whole project")
      .option("--workspace DIR", options->workspace,
              "A folder of ridge workspace init: its kernel, its cases or reference, and its memory, instead of an "
              "operator")
      .option("--kernel FILE", options->kernel, "Source to start from (default: the shipped plain kernel)")
      .option("-D,--define NAME=VALUE", options->defines, "NAME=VALUE of a tunable to start from (repeatable)")
      .option("--proposer NAME", options->proposer, "search[:SEED], replay:JOURNAL, command:CMD or manual")
      .option("--seed", options->seed, "Of what the search draws at random: the same as --proposer search:SEED")
      .option("--budget TIME", options->budget, "Active time, for instance 5m or 1h30m (default: none)")
      .option("--max-iterations", options->max_iterations, "Rounds after the baseline, 1 to 119 (default: none)")
      .option("--target CONDITION", options->target,
              "Stop when reached, for instance 'forward_tflops >= 0.15 TFLOPS on all', 'step 700 TFLOPS', "
              "'latency < 20 us' or '95 % of the bandwidth ceiling'")
      .option(
          "--metric NAME", options->metric,
          "What a project's campaign makes better, for instance combined_step_tflops (the default where its table has "
          "a backward pass), latency_p99 or column:NAME:higher")
      .option("--efficiency FRACTION", options->efficiency, "Stop at this fraction of the measured roofline")
      .option("--min-effect FRACTION", options->min_effect, "Smallest gain worth accepting, as a fraction")
      .option(
          "--planned", options->planned,
          "How many decisions share the 5 % chance of any false accept, 1 to 120; it ends when they are used, and each "
          "of fewer takes fewer sessions")
      .option("--max-foreign-load FRACTION", options->max_foreign_load,
              "A machine is busy when others use more of the processors than this fraction")
      .option("--max-steal FRACTION", options->max_steal, "And when the hypervisor takes more of them than this")
      .option("--threads", options->threads, "CPU threads of one call")
      .option("--directory DIR", options->directory, "Where the campaign lives (default: campaigns/<id>)")
      .option("--timestamp-command COMMAND", options->timestamp_command,
              "Stamps heads of the journal: reads a hash on standard input, and its output is kept")
      .option("--branch NAME", options->branch,
              "Branch that accepted rounds are committed to, or none (default: optimize/<id>)")
      .option("--constraint TEXT", options->constraints,
              "What a kernel must keep to that no gate checks, told to every proposer (repeatable)")
      .flag("-y,--yes", options->yes, "Confirm without asking")
      .flag("--no-git", options->no_git, "Keep the lineage without git commits")
      .example("ridge optimize gemm --yes --budget 5m", "the shipped plain kernel, with the search proposer")
      .example("ridge optimize gemm m=256 n=256 k=64,256 --kernel mine.cpp",
               "your kernel on your shapes; asks before it starts")
      .example("ridge optimize gemm --branch kernels/gemm --constraint 'no inline assembly'",
               "what the manifest binds and every proposer is told")
      .example("ridge optimize gemm --proposer 'command:python3 agent.py'",
               "proposals from any program that speaks JSON")
      .example("ridge optimize gemm_bf16 --on cuda --yes --budget 10m",
               "the shipped matrix-unit kernel on the GPU; gemm_fp8_blockwise is the other one")
      .example("ridge optimize matmul --project . --mode workspace --yes --budget 20m",
               "a commit of the project, extracted into the campaign: work on in the repository meanwhile")
      .example(
          "ridge optimize matmul --project . --metric latency --target 'latency < 20 us' --proposer 'command:agent'",
          "a project, judged by a time of its table; ridge handoff says what its table gives")
      .example("ridge optimize --workspace fast_gemm --yes --budget 5m",
               "the kernel of a workspace; every round is kept in its memory/")
      .exits({kUnavailable,
              kSystem,
              {kHeld, "it waits for confirmation, the folder is taken, or another process runs it"},
              kPaused,
              kInterrupted})
      .json("the report, as in report/report.json of the campaign")
      .action([options] { return optimize(*options); });
}

}  // namespace ridge::cli
