#include "service/draft.h"

#include <fmt/format.h>

#include <algorithm>

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
#include "execute/project_device.h"
#include "execute/project_executor.h"
#include "project/project.h"
#include "propose/proposer.h"
#include "record/backend.h"
#include "record/configuration.h"
#include "record/execution.h"
#include "record/json.h"
#include "record/kernel_start.h"
#include "record/report.h"
#include "record/scope.h"
#include "service/candidate_file.h"
#include "service/duration.h"
#include "service/machines.h"
#include "service/roofline.h"
#include "service/worker_call.h"
#include "service/workspace_file.h"
#include "stats/bounds.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// What this machine's processor or GPU calls itself. No GPU is an error that says why.
Result<std::string> device_name(const Context& context, const std::string& backend) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
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
Status cite_targets(const Context& context, const DraftRequest& options, record::CampaignSpec& spec) {
  const std::string on = record::backend_of_name(options.backend).host ? std::string() : options.backend;
  RIDGE_TRY(reports, rooflines(context, options.op, options.words, on, options.threads));
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

// What of a spec is the same for an operator of Ridgeline and for a project.
Result<record::CampaignSpec> common_spec(const DraftRequest& options) {
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
  RIDGE_CHECK_OK(campaign::set_machines(spec, options.machines));
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

// `kernel`: the source to start from, as the manifest names it.
Result<record::CampaignSpec> spec_of(const Context& context, const DraftRequest& options, const std::string& kernel) {
  RIDGE_TRY(spec, common_spec(options));
  RIDGE_TRY(cases, cases_of(context, options.op, options.words));
  spec.target_cases = std::move(cases);
  if (!options.metric.empty()) {
    return with_hint(invalid("--metric {} is for the table of a project", options.metric),
                     "leave it out: an operator of Ridgeline is judged by the time of one call; or name --project DIR");
  }
  RIDGE_TRY(device, device_name(context, options.backend));
  spec.gpu = campaign::short_machine_name(device);
  spec.language = record::backend_of_name(options.backend).language;
  spec.kernel_source = kernel;
  RIDGE_CHECK_OK(cite_targets(context, options, spec));
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

Result<Draft> start(const DraftRequest& options, record::CampaignSpec spec, const record::Candidate& baseline) {
  RIDGE_CHECK_OK(check_scope(spec, baseline));
  const fs::path directory = options.directory.empty() ? fs::path("campaigns") / spec.id : fs::path(options.directory);
  SystemClock clock;
  RIDGE_CHECK_OK(
      campaign::anchor_spec(spec, directory, campaign::sign_key_file(options.run.sign_key), options.timestamp_command));
  const auto created = campaign::create_campaign(directory, spec, baseline, clock, options.run.sign_key);
  if (!created) return created.error();
  if (const std::optional<campaign::Upstream> upstream = campaign::upstream_of(spec)) {
    const auto project = campaign::extract(*upstream, fs::absolute(directory) / campaign::kProjectFolder);
    if (!project) return project.error();
  }
  return Draft{directory, std::move(spec)};
}

// `table`: what the project's benchmark printed; `source`: its folder.
Result<record::CampaignSpec> project_spec(const DraftRequest& options, const project::Project& project,
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
void place_in_workspace(DraftRequest& options, record::CampaignSpec& spec) {
  const fs::path folder =
      options.directory.empty() ? free_folder(options.workspace, spec) : fs::path(options.directory);
  options.directory = folder.string();
  spec.extra[campaign::kWorkspaceKey] = campaign::yaml_text(
      fs::weakly_canonical(options.workspace).lexically_relative(fs::weakly_canonical(folder)).string());
}

Result<Draft> draft_for_project(const Context& context, DraftRequest options) {
  if (options.machines.any()) return campaign::no_place_of_a_project();
  Result<project::Project> project = project::read_project(options.project);
  if (!project) return project.error();
  const fs::path source = project->root;
  if (project->op != options.op) return invalid("{} is about {}, not {}", options.project, project->op, options.op);
  if (options.branch.empty() && !options.no_git) options.branch = project->branch;
  options.constraints.insert(options.constraints.begin(), project->constraints.begin(), project->constraints.end());
  const Result<TempDir> folder = TempDir::create("ridge-table");
  if (!folder) return folder.error();
  std::optional<campaign::Upstream> upstream;
  if (options.mode == record::kWorkspaceMode) {
    Result<campaign::Upstream> found = campaign::find_upstream(*project);
    if (!found) return found.error();
    upstream = std::move(*found);
    project = campaign::extract_first(*upstream, folder->path() / campaign::kProjectFolder);
    if (!project) return project.error();
    project = project::extracted_part(std::move(*project));
  }
  const Result<record::Candidate> baseline = project::baseline_of(*project);
  if (!baseline) return baseline.error();
  if (const Status settable = record::check_tunables(*baseline); !settable) return settable.error();
  const Result<execute::LookAtTable> table =
      execute::look_at_table(*project, folder->path() / "copy" / "a", [&] { return context.stopped(); });
  if (!table)
    return with_hint(table.error(), fmt::format("ridge handoff {} --project {}", options.op, options.project));
  Result<record::CampaignSpec> spec = project_spec(options, *project, source, table->contents);
  if (!spec) return spec.error();
  if (upstream) campaign::describe_upstream(*spec, *upstream);
  if (!options.workspace.empty()) place_in_workspace(options, *spec);
  return start(options, *spec, *baseline);
}

// Operator, cases, kernel and threads come from the workspace, and the campaign's memory is the workspace's.
Result<Draft> draft_for_workspace(const Context& context, DraftRequest options) {
  if (!options.op.empty() || !options.kernel.empty() || !options.project.empty()) {
    return with_hint(invalid("a workspace names operator, cases and kernel itself"),
                     "leave the operator, --kernel and --project out, or --workspace");
  }
  const Result<record::Workspace> workspace = read_workspace(options.workspace);
  if (!workspace) return workspace.error();
  if (!options.mode.empty()) {
    return with_hint(invalid("--mode {} with --workspace", options.mode),
                     "leave --mode out: a folder of ridge workspace init is a copy already");
  }
  if (!workspace->reference.empty()) {
    options.project = options.workspace;
    options.op = workspace->op;
    return draft_for_project(context, std::move(options));
  }
  Result<WorkspaceSubject> subject = workspace_subject(context, options.workspace);
  if (!subject) return subject.error();
  options.op = subject->workspace.op;
  options.words = subject->workspace.cases;
  options.backend = subject->kernel.backend;
  options.threads = subject->workspace.threads;
  options.kernel = (fs::path(options.workspace) / subject->workspace.kernel).string();
  for (const std::string& define : options.defines) {
    const Result<record::Candidate> one = candidate_of(context, options.op, options.kernel, {define});
    if (!one) return one.error();
    subject->kernel.defines.insert(one->defines.begin(), one->defines.end());
  }
  Result<record::CampaignSpec> spec = spec_of(context, options, options.kernel);
  if (!spec) return spec.error();
  place_in_workspace(options, *spec);
  return start(options, *spec, subject->kernel);
}

// The source to start from: a file, or the text of a start that lies nowhere.
struct StartingKernel {
  fs::path file;
  std::string text;   // empty: the file's
  std::string named;  // as the manifest names it
};

// A kernel of the library by itself: one build, so of the operator's own target cases the first. Unless the user says
// where to start it begins as the library runs it on that case, which a campaign is to improve on.
Result<StartingKernel> library_start(const Context& context, DraftRequest& options, const ShippedKernel& shipped) {
  RIDGE_TRY(cases, cases_of(context, options.op, options.words, options.backend));
  if (cases.empty()) return invalid("{} has no target case on {}: name one", options.op, options.backend);
  if (options.words.empty()) cases.resize(1);
  options.words.clear();
  for (const record::Case& one : cases) options.words.push_back(one.label());
  std::string named = "shipped with ridge: " + shipped.path;
  if (options.defines.empty()) {
    RIDGE_TRY(explanations, explanations_of(context, {cases.front()}, options.backend));
    const std::string runs = explanations.empty() ? std::string() : explanations.front().runs;
    RIDGE_TRY(values, values_of_configuration(shipped, runs));
    options.defines = std::move(values);
    if (!options.defines.empty()) named += " as " + runs;
  }
  return StartingKernel{"start.cu", record::start_text(shipped.path, options.op, options.words), std::move(named)};
}

// The kernel to start from; the operator and the cases that it is for, where it says so and the user does not.
Result<StartingKernel> starting_kernel(const Context& context, DraftRequest& options) {
  std::optional<record::CampaignBlock> block;
  StartingKernel source{options.kernel, {}, options.kernel};
  if (options.kernel.empty()) {
    RIDGE_TRY(shipped, shipped_kernel(context, options.op, options.backend));
    if (!shipped.path.empty()) return library_start(context, options, shipped);
    source = {shipped.file, {}, "shipped with ridge: " + shipped.file.filename().string()};
    block = std::move(shipped.block);
  } else {
    RIDGE_TRY(text, read_file(source.file));
    RIDGE_TRY(own, record::parse_campaign_block(text));
    block = std::move(own);
  }
  if (!block) return source;
  options.op = block->op;
  if (options.words.empty()) {
    options.words = block->cases;
    return source;
  }
  for (const std::string& fixed : block->fixed()) {
    const std::string name = fixed.substr(0, fixed.find('=') + 1);
    const auto given = [&](const std::string& word) { return (" " + word).find(" " + name) != std::string::npos; };
    if (!std::any_of(options.words.begin(), options.words.end(), given)) options.words.push_back(fixed);
  }
  return source;
}

// --mode is what a project is worked on in; an operator of Ridgeline has no repository of its own.
Status check_mode(const DraftRequest& options) {
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

}  // namespace

Result<Draft> draft_campaign(const Context& here, DraftRequest options) {
  const Result<Context> there = context_on(here, options.machines);
  if (!there) return there.error();
  const Context& context = *there;
  if (const Status known = check_mode(options); !known) return known.error();
  if (!options.workspace.empty()) return draft_for_workspace(context, options);
  if (options.op.empty()) return with_hint(invalid("no operator"), "name one, for instance gemm, or --workspace DIR");
  if (!options.project.empty()) return draft_for_project(context, options);
  if (const auto known = record::find_measured(options.backend, "campaigns on"); !known) return known.error();
  const Result<StartingKernel> kernel = starting_kernel(context, options);
  if (!kernel && !record::backend_of_name(options.backend).host) return kernel.error();
  Result<record::CampaignSpec> spec = spec_of(context, options, kernel ? kernel->named : std::string());
  if (!spec) return spec.error();
  if (!kernel) return kernel.error();
  Result<record::Candidate> baseline =
      kernel->text.empty()
          ? candidate_of(context, options.op, kernel->file.string(), options.defines)
          : candidate_of_text(context, options.op, kernel->file.string(), kernel->text, options.defines);
  if (!baseline) return baseline.error();
  if (baseline->backend != options.backend) {
    return with_hint(invalid("{} is a kernel for {}, not for {}", kernel->named, baseline->backend, options.backend),
                     "use --on " + baseline->backend);
  }
  return start(options, *spec, *baseline);
}

}  // namespace ridge::service
