// ridge campaign: what happened in a campaign, and carrying it on.
#include <fmt/format.h>

#include "campaign_context.h"
#include "campaign_exchange.h"
#include "campaign_list.h"
#include "campaign_propose.h"
#include "campaign_repair.h"
#include "campaign_rules.h"
#include "campaign_run.h"
#include "campaign_slim.h"
#include "campaign_verify.h"
#include "campaign_watch.h"
#include "report/report.h"
#include "say.h"
#include "service/audit.h"
#include "service/campaigns.h"
#include "service/progress.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int status(const std::string& directory) {
  const Result<report::Model> model = service::campaign_status(directory);
  if (!model) return fail(model.error());
  if (globals().json) {
    say("{}\n", report::json(*model));
    return kSuccess;
  }
  say("{}\n", painted_lines(report::status_text(*model)));
  if (model->progress) {
    const bool runs = model->progress->state == "running";
    say("{}: {}\n", runs ? "Now" : "Last", service::progress_text(*model->progress));
  }
  return kSuccess;
}

struct StopAfterOptions {
  std::string directory;
  std::int64_t rounds = 0;
};

int hand_back(const service::HandBackRequest& request) {
  const Result<service::HandedBack> back = service::hand_back_campaign(request);
  if (!back) return fail(back.error());
  if (!globals().json) {
    for (const std::string& commit : back->commits) say("{}\n", commit);
  }
  return answer(back->answer);
}

// One campaign after the other; one that fails does not keep the others from running.
int run_queue(const Context& context, const std::vector<std::string>& directories) {
  int worst = kSuccess;
  for (const std::string& directory : directories) {
    say(stderr, "{}\n", directory);
    const int code = run_and_conclude(context, directory);
    if (code == kInterrupted) return code;
    worst = std::max(worst, code);
  }
  return worst;
}

int report(const std::string& directory) {
  const Result<report::Model> model = service::write_report(directory);
  if (!model) return fail(model.error());
  if (globals().json) {
    say("{}\n", report::json(*model));
  } else {
    say("{0}/{1}\n{0}/{2}\n{0}/{3}\n", directory, report::kHtmlPath, report::kMarkdownPath, report::kJsonPath);
  }
  return kSuccess;
}

}  // namespace

void define_campaign(Command root) {
  Command group = root.subcommand("campaign", "Status, resume, stop, report, verify, replay");
  auto directory = std::make_shared<std::string>();
  constexpr const char* kAnswer = "a message and the command to run next";
  constexpr const char* kAudit = "whether it holds, a summary and a list of differences";
  constexpr const char* kReport = "the report, as in report/report.json of the campaign";
  const auto verb = [&](const char* name, const char* help, const char* what,
                        std::function<int(const Context&)> action) {
    Command command = group.subcommand(name, help);
    command.positional("directory", *directory, "Folder of the campaign")
        .example(fmt::format("ridge campaign {} campaigns/gemm_cpu_xeon_20260101", name), what)
        .action(std::move(action))
        .exits({kSystem});
    return command;
  };
  verb("status", "Where it stands, in a screenful", "also while it runs", [directory](const Context&) {
    return status(*directory);
  }).json(kReport);
  verb("confirm", "Accept manifest.yaml as it is now", "after editing the draft",
       [directory](const Context&) { return answer(service::confirm_draft(*directory, "ridge campaign confirm")); })
      .exits({{kHeld, "it is confirmed already, or another process runs it"}})
      .json(kAnswer);
  auto run_options = std::make_shared<service::RunRequest>();
  Command resume = verb(
      "resume", "Carry on: after a pause, a crash, kill -9 or more budget", "nothing is measured twice",
      [directory, run_options](const Context& context) { return run_and_conclude(context, *directory, *run_options); });
  add_run_options(resume, *run_options);
  resume
      .option("--proposer NAME", run_options->proposer,
              "Who proposes in this run: search[:SEED], replay:JOURNAL, command:CMD or manual (default: the campaign's "
              "own)")
      .option("--rounds", run_options->rounds, "Pause when so many more rounds are closed")
      .flag("--no-replica", run_options->no_replica,
            "End without the final comparison on another device, if it is not made yet")
      .example("ridge campaign resume campaigns/gemm_cpu_xeon_20260101 --proposer search --rounds 2",
               "two rounds of the search in a campaign that others propose in, too")
      .example("ridge campaign resume campaigns/gemm_cpu_xeon_20260101 --wait-for-quiet 10m",
               "on a busy machine: first wait until others have finished, at most so long")
      .exits({kUnavailable, {kHeld, "another process runs it, or it is not confirmed"}, kPaused, kInterrupted})
      .json(kReport);
  verb("stop", "Ask it to end in good order", "from another terminal",
       [directory](const Context&) { return answer(service::stop_campaign(*directory)); })
      .exits({kHeld})
      .json(kAnswer);
  verb("pause", "Ask it to pause", "from another terminal; resume goes on",
       [directory](const Context&) { return answer(service::pause_campaign(*directory)); })
      .exits({kHeld})
      .json(kAnswer);
  verb("report", "Write the report again from the journal", "HTML, Markdown and JSON", [directory](const Context&) {
    return report(*directory);
  }).json(kReport);
  verb("check", "Read the campaign of another tool, and say what is missing or contradictory",
       "any layout; exit code 1 when there are findings",
       [directory](const Context&) { return print_audit(service::check_foreign_record(*directory)); })
      .exits({{kNo, "something is missing or contradictory"}})
      .json(kAudit);
  define_campaign_propose(group);
  define_campaign_context(group);
  define_campaign_verify(group);
  define_campaign_repair(group);
  define_campaign_slim(group);
  define_campaign_rules(group);
  define_campaign_watch(group);
  define_campaign_exchange(group);
  define_campaign_list(group);
  auto after = std::make_shared<StopAfterOptions>();
  group.subcommand("stop-after", "Ask it to end in good order after so many rounds")
      .positional("directory", after->directory, "Folder of the campaign")
      .option("--rounds", after->rounds, "Attempts after the baseline, 1 to 119")
      .example("ridge campaign stop-after campaigns/gemm_cpu_xeon_20260101 --rounds 8", "also while it runs")
      .exits({kSystem, kHeld})
      .json(kAnswer)
      .action([after] { return answer(service::stop_campaign_after(after->directory, after->rounds)); });
  auto back = std::make_shared<service::HandBackRequest>();
  group.subcommand("hand-back", "Give the accepted rounds of a project back to its repository, on a branch of its own")
      .positional("directory", back->directory, "Folder of the campaign")
      .option("--repository DIR", back->repository,
              "The project's folder in another repository (default: the one it came from)")
      .flag("--at-start", back->at_start,
            "Of a campaign in workspace mode: from the commit that was extracted, also when the project has moved on")
      .example("ridge campaign hand-back campaigns/rowsum_cpu_xeon_20260101", "one commit per accepted round")
      .example("ridge campaign hand-back campaigns/rowsum_cpu_xeon_20260101 --at-start",
               "where the project has changed since; merge or rebase the branch then")
      .exits({kSystem, {kHeld, "the repository has such a branch, or has changed since"}})
      .json(kAnswer)
      .action([back] { return hand_back(*back); });
  auto directories = std::make_shared<std::vector<std::string>>();
  group.subcommand("queue", "Run several campaigns, one after the other")
      .positional("directories", *directories, "Folders of campaigns that are confirmed")
      .example("ridge campaign queue campaigns/a campaigns/b",
               "campaigns started side by side share the device too, turn by turn")
      .exits({kUnavailable, kSystem, kHeld, kPaused, kInterrupted})
      .json("one report per campaign, after each other")
      .action([directories](const Context& context) { return run_queue(context, *directories); });
  auto extend_options = std::make_shared<service::ExtendRequest>();
  group.subcommand("extend", "More time or more rounds, also for a campaign that has ended")
      .positional("directory", extend_options->directory, "Folder of the campaign")
      .option("--budget TIME", extend_options->budget, "Active time to add, for instance 10m")
      .option("--max-iterations", extend_options->max_iterations, "New limit of rounds")
      .example("ridge campaign extend campaigns/gemm_cpu_xeon_20260101 --budget 10m", "then resume it")
      .exits({kSystem, kHeld})
      .json(kAnswer)
      .action([extend_options] { return answer(service::extend_campaign(*extend_options)); });
}

}  // namespace ridge::cli
