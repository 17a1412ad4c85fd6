// ridge handoff: whether a project is ready for a campaign. Everything is tried, nothing is believed.
#include "handoff_words.h"

#include <fmt/format.h>

#include "base/process.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int handoff(const Context& context, const service::HandoffRequest& request) {
  const Result<service::HandedProject> handed = service::hand_off(context, request);
  if (!handed) return fail(handed.error());
  if (globals().json) return print_json(handed->report.rows, exit_code_of(handed->report));
  say_handoff(handed->report, handed->project, request.project, request.compile_only);
  return exit_code_of(handed->report);
}

}  // namespace

int exit_code_of(const service::HandoffReport& report) {
  return report.ready ? kSuccess : report.unavailable ? kUnavailable : kNo;
}

void say_handoff(const service::HandoffReport& result, const project::Project& project, const std::string& where,
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
  auto options = std::make_shared<service::HandoffRequest>();
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
      .action([options](const Context& context) { return handoff(context, *options); });
  define_handoff_init(handoff_command);
}

}  // namespace ridge::cli
