// ridge profile: what a profiler saw of a kernel, in the names of no tool, and what limits it.
#include "profile/profile.h"

#include <fmt/format.h>

#include "base/files.h"
#include "say.h"
#include "service/profile_kernel.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int run_profile(const Context& context, const service::ProfileRequest& request) {
  const Result<service::ProfiledKernel> profiled = service::profile_kernel(context, request);
  if (!profiled) return fail(profiled.error());
  if (!profiled->kept.empty())
    context.note(fmt::format("{}: what the next rounds see of the incumbent", profiled->kept));
  if (globals().json) return print_json(profiled->report);
  say("{}", profile::to_text(profiled->report));
  return kSuccess;
}

}  // namespace

void define_profile(Command root) {
  auto o = std::make_shared<service::ProfileRequest>();
  root.subcommand("profile", "What limits a kernel: from a profiler's report, or by running one")
      .positional("command", o->command, "What to run under the profiler, after --", false)
      .option("--from FILE", o->from,
              "A report: .ncu-rep, or CSV of ncu, nsys, rocprofv3, rocprof-compute or perf stat")
      .option("--tool ncu|cupti|rocprofv3|rocprof-compute|perf", o->tool,
              "ncu, cupti, rocprofv3, rocprof-compute or perf (default: by the report's looks)")
      .option("--kernel NAME", o->kernel, "Part of the target's name (default: the one that takes most of the time)")
      .option("--on PRODUCT", o->on, "A product of ridge spec list: its bandwidth makes fractions of counted bytes")
      .option("--keep FILE", o->keep, "With a command: keep the profiler's own report in this file")
      .option("--campaign DIR", o->campaign, "Give it to this campaign as evidence about its incumbent")
      .example("ridge profile --from gemm.ncu-rep --kernel gemm", "needs ncu to open it; a CSV needs nothing")
      .example("ridge profile --from counters.csv --on MI300X", "counters of rocprofv3")
      .example("ridge profile --tool perf -- ./my_program", "this processor, where it shows its counters")
      .exits({kUnavailable, kSystem, {kHeld, "the campaign is at a step that takes no evidence"}})
      .json("the metrics, the limit they show and ranked hypotheses")
      .action([o](const Context& context) { return run_profile(context, *o); });
}

}  // namespace ridge::cli
