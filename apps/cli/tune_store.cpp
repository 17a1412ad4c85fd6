// ridge tune import, ridge tune export: measurements of configurations that are kept, in and out.
#include <fmt/format.h>

#include "say.h"
#include "service/tune_store.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int print_import(const Context& context, const service::TuneStoreRequest& request) {
  const auto report = service::import_tuning(context, request);
  if (!report) return fail(report.error());
  if (globals().json) return print_json(*report);
  say("{} new measurements of {} on {}; {} of this kernel in {}\n", report->added, report->kernel, report->device,
      report->measurements, report->file);
  return kSuccess;
}

int print_export(const Context& context, const service::TuneStoreRequest& request) {
  const auto report = service::export_tuning(context, request);
  if (!report) return fail(report.error());
  if (globals().json) return print_json(*report);
  say("{} measurements of {} on {} in {}\n", report->measurements, report->kernel, report->device, report->file);
  return kSuccess;
}

}  // namespace

void define_tune_store(Command& tune) {
  auto in = std::make_shared<service::TuneStoreRequest>();
  tune.inner_command("import", "Keep the measurements of a recording: a cache file of Kernel Tuner, or T4 results")
      .positional("file", in->file, "The recording")
      .option("--kernel NAME", in->kernel, "Its digest or name (default: what the file says)")
      .option("--device NAME", in->device, "What it was measured on (default: what the file says)")
      .option("--clocks TEXT", in->clocks, "The clocks it was measured at")
      .option("--compiler TEXT", in->compiler, "What it was built with")
      .example("ridge tune import convolution_A100_T4.json --kernel convolution --device A100", "a public recording")
      .exits({kSystem})
      .json("the file of the store, kernel, device, how many are new, and how many there are of the kernel")
      .action([in](const Context& context) { return print_import(context, *in); });
  auto out = std::make_shared<service::TuneStoreRequest>();
  tune.inner_command("export", "Write the measurements of a kernel on a device as T4 results")
      .positional("file", out->file, "Where to")
      .option("--kernel NAME", out->kernel, "As it was imported")
      .option("--device NAME", out->device, "Where there are several")
      .option("--clocks TEXT", out->clocks, "Where there are several")
      .option("--compiler TEXT", out->compiler, "Where there are several")
      .option("--problem TEXT", out->problem, "The shapes of a campaign, where there are several")
      .option("--origin TEXT", out->origin, "The campaign, where there are several")
      .example("ridge tune export mine_T4.json --kernel convolution --device A100", "for Kernel Tuner, or for --past")
      .exits({kSystem})
      .json("the file, kernel, device, and how many measurements")
      .action([out](const Context& context) { return print_export(context, *out); });
}

}  // namespace ridge::cli
