// ridge profile: what a profiler saw of a kernel, in the names of no tool, and what limits it.
#include "profile/profile.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "campaign/campaign.h"
#include "campaign/profile_hook.h"
#include "campaign_run.h"
#include "hardware/spec.h"
#include "record/json.h"
#include "roofline/machine.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct ProfileOptions {
  std::string from, tool, kernel, on, campaign, keep;
  std::vector<std::string> command;
};

// Of the product: its cited bandwidth, for tools that count bytes, and whose events perf counted.
Result<profile::Options> options_of(const ProfileOptions& o) {
  profile::Options options;
  options.kernel = o.kernel;
  options.keep = o.keep;
  if (o.on.empty()) return options;
  RIDGE_TRY(database, hardware::Database::open(data_directory()));
  RIDGE_TRY(spec, database.find(o.on));
  RIDGE_TRY(machine, roofline::machine_of(*spec, {}));
  options.bandwidth = machine.memory.front().peak;
  options.vendor = spec->vendor;
  return options;
}

Result<record::ProfileReport> report_of(const ProfileOptions& o) {
  RIDGE_TRY(options, options_of(o));
  if (!o.from.empty()) {
    if (!o.command.empty()) return invalid("a report and a command: name one of them");
    if (!o.keep.empty()) return invalid("--keep is for a command's report; {} is there already", o.from);
    return profile::read_report(o.from, o.tool, options);
  }
  if (o.command.empty()) {
    return with_hint(invalid("nothing to profile"),
                     "give a report with --from FILE, or a command: ridge profile --tool perf -- ./program");
  }
  if (o.tool.empty()) return with_hint(invalid("no profiler is named"), "one of --tool ncu, cupti, rocprofv3 or perf");
  return profile::collect(o.tool, o.command, options);
}

int run_profile(const ProfileOptions& o) {
  const Result<record::ProfileReport> report = report_of(o);
  if (!report) return fail(report.error());
  if (!o.campaign.empty()) {
    const Result<campaign::State> state = campaign::load_campaign(o.campaign);
    if (!state) return fail(state.error());
    const Result<std::string> kept = campaign::keep_profile(*state, o.campaign, *report);
    if (!kept) return fail(kept.error());
    if (!globals().quiet) say(stderr, "{}: what the next rounds see of the incumbent\n", *kept);
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(*report));
  } else {
    say("{}", profile::to_text(*report));
  }
  return kSuccess;
}

}  // namespace

void define_profile(Command root) {
  auto o = std::make_shared<ProfileOptions>();
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
      .action([o] { return run_profile(*o); });
}

}  // namespace ridge::cli
