// ridge demo: a campaign from any folder with nothing to write first, then the audit of its journal.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "campaign/verify.h"
#include "campaign_run.h"
#include "report/report.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct DemoOptions {
  std::string budget = "5m", directory;
  RunOptions run;
};

// Candidates are compiled on this machine.
Status require_compiler() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  const auto& all = response.capabilities;
  const auto compiler =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return one.name == "C++ compiler"; });
  if (compiler == all.end() || compiler->available) return ok_status();
  return with_hint(
      make_error(ErrorCode::kUnsupported, "the demo compiles kernels on this machine: {}", compiler->detail),
      "install one, for instance: apt-get install g++");
}

// campaigns/demo-20260131, or with a number where that is taken.
fs::path free_folder() {
  const std::string name = "demo-" + format_day(SystemClock().unix_time());
  fs::path folder = fs::path("campaigns") / name;
  std::error_code ignored;
  for (int number = 2; fs::exists(folder, ignored); ++number) {
    folder = fs::path("campaigns") / fmt::format("{}-{}", name, number);
  }
  return folder;
}

// Renders every file again from the journal, and decides every round again from the raw samples.
Result<bool> audit(const fs::path& directory) {
  RIDGE_TRY(verified, campaign::verify_campaign(directory));
  RIDGE_TRY(replayed, campaign::replay_campaign(directory));
  say("\nVerified: {} events and {} files {}; {} decisions computed again from the raw samples: {}.\n", verified.events,
      verified.files, verified.ok() ? "are what the journal says" : "are NOT all what the journal says",
      replayed.decisions, replayed.ok() ? "all the same" : "NOT all the same");
  return verified.ok() && replayed.ok();
}

int demo(const DemoOptions& options) {
  if (const Status able = require_compiler(); !able) return fail(able.error());
  const fs::path directory = options.directory.empty() ? free_folder() : fs::path(options.directory);
  const int code = run_demo_campaign(directory, options.budget, !find_program("git").empty(), options.run);
  if ((code != kSuccess && code != kPaused) || globals().json) return code;
  const Result<bool> good = audit(directory);
  if (!good) return fail(good.error());
  say("Open {} in a browser.\n", (directory / report::kHtmlPath).string());
  std::fflush(stdout);
  if (code == kPaused) say_how_to_go_on(directory);
  return *good ? code : kNo;
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
      .action([options] { return demo(*options); });
}

}  // namespace ridge::cli
