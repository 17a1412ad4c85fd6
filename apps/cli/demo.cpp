// ridge demo: a campaign from any folder with nothing to write first, then the audit of its journal.
#include <fmt/format.h>

#include <cstdio>

#include "campaign_run.h"
#include "report/report.h"
#include "say.h"
#include "service/demo.h"
#include "service/machine.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct DemoOptions {
  std::string budget = "5m", directory;
  service::RunRequest run;
};

int demo(const Context& context, const DemoOptions& options) {
  if (const Status able = service::require_compiler(context); !able) return fail(able.error());
  const std::filesystem::path directory =
      options.directory.empty() ? service::demo_folder() : std::filesystem::path(options.directory);
  const int code = optimize(context, service::demo_request(directory, options.budget, options.run), true);
  if ((code != kSuccess && code != kPaused) || globals().json) return code;
  const Result<service::DemoAudit> audit = service::audit_demo(directory);
  if (!audit) return fail(audit.error());
  say("\n{}\nOpen {} in a browser.\n", audit->said, (directory / report::kHtmlPath).string());
  std::fflush(stdout);
  if (code == kPaused) say_how_to_go_on(directory);
  return audit->good ? code : kNo;
}

}  // namespace

void define_demo(Command root) {
  auto options = std::make_shared<DemoOptions>();
  Command command =
      root.subcommand("demo", "Take a plain matrix multiplication to the limit of this CPU, with a report");
  add_run_options(command, options->run);
  command.option("--budget TIME", options->budget, "Active time, for instance 5m or 90s")
      .option("--directory DIR", options->directory, "Where the campaign lives (default: campaigns/demo-<day>)")
      .example("ridge demo", "five minutes, from any folder; the last line names the report")
      .example("ridge demo --budget 90s", "a shorter one")
      .exits({{kNo, "the journal and the files of the campaign differ"},
              {kUnavailable, "no C++ compiler, for instance"},
              kSystem,
              kPaused,
              kInterrupted})
      .json("the report, as in report/report.json of the campaign")
      .action([options](const Context& context) { return demo(context, *options); });
}

}  // namespace ridge::cli
