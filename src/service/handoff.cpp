#include "service/handoff.h"

#include "base/error.h"
#include "base/files.h"
#include "campaign/upstream.h"
#include "execute/project_executor.h"
#include "record/execution.h"
#include "service/campaign_run.h"

namespace ridge::service {
namespace {

// As a campaign in workspace mode begins: the commit of HEAD, extracted into a folder of its own.
Result<HandoffReport> try_extracted(const Context& context, const project::Project& project, bool compile_only) {
  RIDGE_TRY(upstream, campaign::find_upstream(project));
  RIDGE_TRY(folder, TempDir::create("ridge-extracted"));
  RIDGE_TRY(extracted, campaign::extract_first(upstream, folder.path() / campaign::kProjectFolder));
  RIDGE_TRY(result, try_project(context, project::extracted_part(std::move(extracted)), compile_only));
  result.rows.insert(result.rows.begin(), record::HandoffRow{"extraction", campaign::text_of(upstream), true});
  return result;
}

}  // namespace

Result<HandedProject> hand_off(const Context& context, const HandoffRequest& options) {
  RIDGE_TRY(project, project::read_project(options.project));
  if (!options.op.empty() && project.op != options.op)
    return invalid("{} is about {}, not {}", options.project, project.op, options.op);
  record::CampaignSpec scratch;
  if (const Status sound = add_wishes(scratch, project.branch, project.constraints); !sound)
    return in_context(project::kProjectFile, sound.error());
  if (!options.mode.empty() && options.mode != record::kRepoMode && options.mode != record::kWorkspaceMode)
    return with_hint(invalid("--mode {} is not repo or workspace", options.mode), "ridge handoff --help");
  RIDGE_TRY(report, options.mode == record::kWorkspaceMode ? try_extracted(context, project, options.compile_only)
                                                           : try_project(context, project, options.compile_only));
  return HandedProject{std::move(project), std::move(report)};
}

Result<HandoffReport> try_project(const Context& context, const project::Project& project, bool compile_only) {
  RIDGE_TRY(folder, TempDir::create("ridge-handoff"));
  const std::vector<execute::HandoffCheck> checks = execute::check_handoff(
      project, folder.path() / "copy" / "a", [&](const record::Progress& progress) { context.progress(progress); },
      [&] { return context.stopped(); }, compile_only);
  context.settled();
  HandoffReport report;
  report.ready = !checks.empty() && checks.back().works;
  report.unavailable = !checks.empty() && checks.back().unavailable;
  for (const execute::HandoffCheck& check : checks) report.rows.push_back({check.what, check.detail, check.works});
  return report;
}

}  // namespace ridge::service
