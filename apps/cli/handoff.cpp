// ridge handoff: whether a project is ready for a campaign. Everything is tried, nothing is believed.
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "execute/project_executor.h"
#include "record/json.h"
#include "record/listing.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct HandoffOptions {
  std::string op, project = ".";
};

int handoff(const HandoffOptions& options) {
  const Result<project::Project> project = project::read_project(options.project);
  if (!project) return fail(project.error());
  if (project->op != options.op)
    return fail(invalid("{} is about {}, not {}", options.project, project->op, options.op));
  const Result<TempDir> folder = TempDir::create("ridge-handoff");
  if (!folder) return fail(folder.error());
  ProgressLine line;
  const std::vector<execute::HandoffCheck> checks = execute::check_handoff(
      *project, folder->path() / "copy" / "a", [&](const record::Progress& progress) { line.show(progress); },
      [] { return interruptions() > 0; });
  line.clear();
  const bool ready = !checks.empty() && checks.back().works;
  std::vector<record::HandoffRow> rows;
  for (const execute::HandoffCheck& check : checks) rows.push_back({check.what, check.detail, check.works});
  if (globals().json) {
    say("{}\n", record::to_pretty(rows));
    return ready ? kSuccess : kNo;
  }
  for (const record::HandoffRow& row : rows)
    say("{}{}  {}: {}\n", painted_verdict(row.works ? "ok" : "FAIL"), row.works ? "  " : "", row.what, row.detail);
  if (ready) {
    say("Ready. Next: ridge optimize {} --project {} --proposer 'command:...'\n", options.op, options.project);
  } else {
    say("Not ready; what follows the failure was not tried.\n");
  }
  return ready ? kSuccess : kNo;
}

}  // namespace

void define_handoff(Command root) {
  auto options = std::make_shared<HandoffOptions>();
  root.subcommand("handoff", "Check that a project of its own can be optimized: build, test, benchmark, table")
      .positional("operator", options->op, "What the project's kernel computes, as in its ridge-project.toml")
      .option("--project DIR", options->project, "The project's folder or its ridge-project.toml (default: here)")
      .example("ridge handoff rowsum --project examples/project_cpp", "exit code 1 when something does not work")
      .exits({{kNo, "something of the project does not work"}, kSystem})
      .json("a list of what was tried, whether it works, and what was seen")
      .action([options] { return handoff(*options); });
}

}  // namespace ridge::cli
