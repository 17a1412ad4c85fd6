// ridge handoff: whether a project is ready for a campaign. Everything is tried, nothing is believed.
#include "handoff.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "campaign/upstream.h"
#include "campaign_run.h"
#include "execute/project_executor.h"
#include "record/execution.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct HandoffOptions {
  std::string op, project = ".", mode;
  bool compile_only = false;
};

// As a campaign in workspace mode begins: the commit of HEAD, extracted into a folder of its own.
Result<HandoffResult> try_extracted(const project::Project& project, bool compile_only) {
  RIDGE_TRY(upstream, campaign::find_upstream(project));
  RIDGE_TRY(folder, TempDir::create("ridge-extracted"));
  RIDGE_TRY(extracted, campaign::extract_first(upstream, folder.path() / campaign::kProjectFolder));
  RIDGE_TRY(result, try_project(project::extracted_part(std::move(extracted)), compile_only));
  result.rows.insert(result.rows.begin(), record::HandoffRow{"extraction", campaign::text_of(upstream), true});
  return result;
}

int handoff(const HandoffOptions& options) {
  const Result<project::Project> project = project::read_project(options.project);
  if (!project) return fail(project.error());
  if (!options.op.empty() && project->op != options.op)
    return fail(invalid("{} is about {}, not {}", options.project, project->op, options.op));
  record::CampaignSpec scratch;
  if (const Status sound = add_wishes(scratch, project->branch, project->constraints); !sound)
    return fail(in_context(project::kProjectFile, sound.error()));
  if (!options.mode.empty() && options.mode != record::kRepoMode && options.mode != record::kWorkspaceMode)
    return fail(with_hint(invalid("--mode {} is not repo or workspace", options.mode), "ridge handoff --help"));
  const Result<HandoffResult> result = options.mode == record::kWorkspaceMode
                                           ? try_extracted(*project, options.compile_only)
                                           : try_project(*project, options.compile_only);
  if (!result) return fail(result.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(result->rows));
  } else {
    say_handoff(*result, *project, options.project, options.compile_only);
  }
  return result->exit_code();
}

}  // namespace

int HandoffResult::exit_code() const { return ready ? kSuccess : unavailable ? kUnavailable : kNo; }

Result<HandoffResult> try_project(const project::Project& project, bool compile_only) {
  RIDGE_TRY(folder, TempDir::create("ridge-handoff"));
  ProgressLine line;
  const std::vector<execute::HandoffCheck> checks = execute::check_handoff(
      project, folder.path() / "copy" / "a", [&](const record::Progress& progress) { line.show(progress); },
      [] { return interruptions() > 0; }, compile_only);
  line.clear();
  HandoffResult result;
  result.ready = !checks.empty() && checks.back().works;
  result.unavailable = !checks.empty() && checks.back().unavailable;
  for (const execute::HandoffCheck& check : checks) result.rows.push_back({check.what, check.detail, check.works});
  return result;
}

void say_handoff(const HandoffResult& result, const project::Project& project, const std::string& where,
                 bool compile_only) {
  for (const record::HandoffRow& row : result.rows)
    say("{}{}  {}: {}\n", painted_verdict(row.works ? "ok" : "FAIL"), row.works ? "  " : "", row.what, row.detail);
  for (const std::string& one : project.constraints) say("    constraint: {}\n", one);
  if (!project.branch.empty()) say("    branch: {}\n", project.branch);
  const std::string folder = quote_command({where});
  if (!result.ready) {
    say("Not ready; what follows the failure was not tried.\n");
  } else if (compile_only) {
    say("It builds here; nothing was run. Next, where its device is: ridge handoff {} --project {}\n", project.op,
        folder);
  } else {
    say("Ready. Next: ridge optimize {} --project {} --proposer 'command:...'\n", project.op, folder);
  }
}

void define_handoff(Command root) {
  auto options = std::make_shared<HandoffOptions>();
  Command handoff_command =
      root.subcommand("handoff", "Check that a project of its own can be optimized: build, test, benchmark, table");
  handoff_command
      .positional("operator", options->op, "What the project's kernel computes, as in its ridge-project.toml", false)
      .option("--project DIR", options->project, "The project's folder or its ridge-project.toml (default: here)")
      .option(
          "--mode repo|workspace", options->mode,
          "workspace: tries the commit that HEAD names, extracted as ridge optimize --mode workspace does (default: "
          "repo, the folder as it is)")
      .flag("--compile-only", options->compile_only,
            "As far as the build, on a machine without the device that test and benchmark need")
      .example("ridge handoff rowsum --project examples/project_cpp", "exit code 1 when something does not work")
      .example("ridge handoff matmul --project . --mode workspace",
               "whether the commit, or the part of it that project.extract names, is enough to build and test")
      .example("ridge handoff matmul --project examples/project_hip --compile-only",
               "whether the kernel builds; exit code 3 where its compiler is not installed")
      .exits({{kNo, "something of the project does not work"},
              {kUnavailable, "a program that the project's build needs is not installed here"},
              kSystem})
      .json("a list of what was tried, whether it works, and what was seen")
      .action([options] { return handoff(*options); });
  define_handoff_init(handoff_command);
}

}  // namespace ridge::cli
