#include "campaign_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "campaign/anchor.h"
#include "campaign/standing.h"
#include "context.h"
#include "report/report.h"
#include "say.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

int conclude(const fs::path& directory, const campaign::State& state, const campaign::RunResult& result) {
  const Result<report::Model> model = report::load(directory);
  if (!model) return fail(model.error());
  if (globals().json) {
    say("{}\n", report::json(*model));
  } else {
    say("{}\n", painted_lines(report::status_text(*model)));
    for (const std::string& line : campaign::standing(state)) say("{}\n", line);
    say("{}\n", result.reason);
    say("Report: {}\nCheck it: ridge campaign verify {}\n", (directory / report::kHtmlPath).string(),
        directory.string());
    if (result.end == campaign::RunEnd::kDone) say("Next: {}\n", service::next_command(directory, state));
  }
  switch (result.end) {
    case campaign::RunEnd::kDone: return kSuccess;
    case campaign::RunEnd::kPaused:
      std::fflush(stdout);
      if (result.waits)
        say(stderr, "Paused; state the next round with: ridge campaign propose {}\n", directory.string());
      else
        say_how_to_go_on(directory);
      return interruptions() > 0 ? kInterrupted : kPaused;
    case campaign::RunEnd::kInterrupted: return kInterrupted;
  }
  return kFault;
}

}  // namespace

void say_how_to_go_on(const fs::path& directory) {
  say(stderr, "Paused; continue with: ridge campaign resume {}\n", directory.string());
}

Command& add_run_options(Command& command, service::RunRequest& request) {
  return command
      .option("--wait-for-quiet TIME", request.wait_for_quiet,
              "Before measuring, wait so long in all while others use the processors; not charged to the "
              "budget, and measured all the same when it is over")
      .flag("--no-past", request.no_past, "Earlier campaigns on this kernel do not guide what is proposed")
      .option("--sign-key FILE", request.sign_key,
              "A private key outside of the campaign that signs every line of its journal (ridge campaign key new)")
      .environment("--sign-key", campaign::kSignKeyVariable);
}

int run_and_conclude(const Context& context, const fs::path& directory, const service::RunRequest& request) {
  const Result<service::Ran> ran = service::run_campaign(context, directory, request);
  return ran ? conclude(directory, ran->state, ran->result) : fail(ran.error());
}

}  // namespace ridge::cli
