// ridge campaign: what happened in a campaign, and carrying it on.
#include <fmt/format.h>

#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/foreign.h"
#include "campaign/handback.h"
#include "campaign_exchange.h"
#include "campaign_list.h"
#include "campaign_propose.h"
#include "campaign_repair.h"
#include "campaign_rules.h"
#include "campaign_run.h"
#include "campaign_slim.h"
#include "campaign_verify.h"
#include "campaign_watch.h"
#include "record/execution.h"
#include "record/json.h"
#include "record/listing.h"
#include "report/report.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

int status(const std::string& directory) {
  const Result<report::Model> model = report::load(directory);
  if (!model) return fail(model.error());
  say("{}\n", globals().json ? report::json(*model) : painted_lines(report::status_text(*model)));
  return kSuccess;
}

int confirm(const std::string& directory) {
  SystemClock clock;
  const Result<campaign::State> state = campaign::confirm_campaign(directory, "ridge campaign confirm", clock);
  if (!state) return fail(state.error());
  return answer("Confirmed " + state->spec().id, "ridge campaign resume " + directory);
}

int stop(const std::string& directory) {
  if (const Status asked = campaign::request_stop(directory); !asked) return fail(asked.error());
  return answer("The campaign ends after the measurement that is under way, with its final measurement and report.",
                "ridge campaign watch " + directory);
}

int pause(const std::string& directory) {
  if (const Status asked = campaign::request_pause(directory); !asked) return fail(asked.error());
  return answer("The campaign pauses after the measurement that is under way.", "ridge campaign resume " + directory);
}

struct StopAfterOptions {
  std::string directory;
  std::int64_t rounds = 0;
};

int stop_after(const StopAfterOptions& options) {
  if (const Status asked = campaign::request_stop_after(options.directory, options.rounds); !asked)
    return fail(asked.error());
  return answer(fmt::format("The campaign ends in good order when {} rounds are closed.", options.rounds),
                "ridge campaign watch " + options.directory);
}

struct HandBackOptions {
  std::string directory, repository;
  bool at_start = false;
};

int hand_back(const HandBackOptions& options) {
  const Result<campaign::State> state = campaign::load_campaign(options.directory);
  if (!state) return fail(state.error());
  if (!record::is_of_project(state->spec())) {
    return fail(with_hint(invalid("{} is about an operator of Ridgeline, not about a project", options.directory),
                          fmt::format("its commits are in {}/src", options.directory)));
  }
  const std::filesystem::path project = std::filesystem::absolute(
      options.repository.empty() ? std::filesystem::path(state->spec().kernel_source).parent_path()
                                 : std::filesystem::path(options.repository));
  const auto top = campaign::repository_above(project);
  if (!top) return fail(top.error());
  const auto repository = execute::make_git(*top);
  const std::filesystem::path prefix = project.lexically_normal().lexically_relative(*top);
  const auto back =
      campaign::hand_back(options.directory, *state, *repository, prefix == "." ? "" : prefix, options.at_start);
  if (!back) return fail(back.error());
  if (!globals().json) {
    for (const std::string& commit : back->commits) say("{}\n", commit);
  }
  return answer(fmt::format("{} commits on {}, from {}; your checkout is as it was", back->commits.size(), back->branch,
                            back->base.substr(0, 12)),
                fmt::format("git -C {} log {}..{}", top->string(), back->base.substr(0, 12), back->branch));
}

// One campaign after the other; one that fails does not keep the others from running.
int run_queue(const std::vector<std::string>& directories) {
  int worst = kSuccess;
  for (const std::string& directory : directories) {
    say(stderr, "{}\n", directory);
    const int code = run_campaign(directory);
    if (code == kInterrupted) return code;
    worst = std::max(worst, code);
  }
  return worst;
}

struct ExtendOptions {
  std::string directory, budget;
  std::optional<std::int64_t> max_iterations;
};

int extend(const ExtendOptions& options) {
  const Result<campaign::State> state = campaign::load_campaign(options.directory);
  if (!state) return fail(state.error());
  record::BudgetChange change{state->wall_budget, state->max_iterations};
  if (!options.budget.empty()) {
    const Result<double> seconds = parse_duration(options.budget);
    if (!seconds) return fail(seconds.error());
    change.wall_budget += *seconds;
  }
  if (options.max_iterations) change.max_iterations = options.max_iterations;
  SystemClock clock;
  if (const auto extended = campaign::extend_budget(options.directory, change, clock); !extended)
    return fail(extended.error());
  return answer("Extended", "ridge campaign resume " + options.directory);
}

int report(const std::string& directory) {
  const Result<report::Model> model = report::load(directory);
  if (!model) return fail(model.error());
  if (const Status written = report::write(directory, *model); !written) return fail(written.error());
  if (globals().json) {
    say("{}\n", report::json(*model));
  } else {
    say("{0}/{1}\n{0}/{2}\n{0}/{3}\n", directory, report::kHtmlPath, report::kMarkdownPath, report::kJsonPath);
  }
  return kSuccess;
}

int check(const std::string& directory) {
  const Result<campaign::LintReport> report = campaign::lint_foreign(directory);
  if (!report) return fail(report.error());
  record::Audit audit{.ok = report->findings.empty()};
  for (const campaign::LintFinding& finding : report->findings) {
    audit.differences.push_back(
        fmt::format("{}: {}: {}", campaign::to_string(finding.kind), finding.path, finding.what));
  }
  audit.summary = fmt::format("check: {} files, {} rounds, {} called accepted: {} findings", report->files,
                              report->rounds, report->accepted, report->findings.size());
  if (report->without_commands > 0) {
    audit.summary += fmt::format(
        ". {} commands are not in its manifest: it began before ridge wrote them, and a confirmed manifest stays",
        report->without_commands);
  }
  return print_audit(audit);
}

}  // namespace

void define_campaign(Command root) {
  Command group = root.subcommand("campaign", "Status, resume, stop, report, verify, replay");
  auto directory = std::make_shared<std::string>();
  constexpr const char* kAnswer = "a message and the command to run next";
  constexpr const char* kAudit = "whether it holds, a summary and a list of differences";
  constexpr const char* kReport = "the report, as in report/report.json of the campaign";
  const auto verb = [&](const char* name, const char* help, const char* what, std::function<int()> action) {
    Command command = group.subcommand(name, help);
    command.positional("directory", *directory, "Folder of the campaign")
        .example(fmt::format("ridge campaign {} campaigns/gemm_cpu_xeon_20260101", name), what)
        .action(std::move(action))
        .exits({kSystem});
    return command;
  };
  verb("status", "Where it stands, in a screenful", "also while it runs", [directory] {
    return status(*directory);
  }).json(kReport);
  verb("confirm", "Accept manifest.yaml as it is now", "after editing the draft",
       [directory] { return confirm(*directory); })
      .exits({{kHeld, "it is confirmed already, or another process runs it"}})
      .json(kAnswer);
  auto run_options = std::make_shared<RunOptions>();
  Command resume =
      verb("resume", "Carry on: after a pause, a crash, kill -9 or more budget", "nothing is measured twice",
           [directory, run_options] { return run_campaign(*directory, *run_options); });
  add_run_options(resume, *run_options);
  resume
      .option("--proposer NAME", run_options->proposer,
              "Who proposes in this run: search[:SEED], replay:JOURNAL, command:CMD or manual (default: the campaign's "
              "own)")
      .option("--rounds", run_options->rounds, "Pause when so many more rounds are closed")
      .example("ridge campaign resume campaigns/gemm_cpu_xeon_20260101 --proposer search --rounds 2",
               "two rounds of the search in a campaign that others propose in, too")
      .example("ridge campaign resume campaigns/gemm_cpu_xeon_20260101 --wait-for-quiet 10m",
               "on a busy machine: first wait until others have finished, at most so long")
      .exits({kUnavailable, {kHeld, "another process runs it, or it is not confirmed"}, kPaused, kInterrupted})
      .json(kReport);
  verb("stop", "Ask it to end in good order", "from another terminal", [directory] { return stop(*directory); })
      .exits({kHeld})
      .json(kAnswer);
  verb("pause", "Ask it to pause", "from another terminal; resume goes on", [directory] { return pause(*directory); })
      .exits({kHeld})
      .json(kAnswer);
  verb("report", "Write the report again from the journal", "HTML, Markdown and JSON", [directory] {
    return report(*directory);
  }).json(kReport);
  verb("check", "Read the campaign of another tool, and say what is missing or contradictory",
       "any layout; exit code 1 when there are findings", [directory] { return check(*directory); })
      .exits({{kNo, "something is missing or contradictory"}})
      .json(kAudit);
  define_campaign_propose(group);
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
      .action([after] { return stop_after(*after); });
  auto back = std::make_shared<HandBackOptions>();
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
      .action([directories] { return run_queue(*directories); });
  auto extend_options = std::make_shared<ExtendOptions>();
  group.subcommand("extend", "More time or more rounds, also for a campaign that has ended")
      .positional("directory", extend_options->directory, "Folder of the campaign")
      .option("--budget TIME", extend_options->budget, "Active time to add, for instance 10m")
      .option("--max-iterations", extend_options->max_iterations, "New limit of rounds")
      .example("ridge campaign extend campaigns/gemm_cpu_xeon_20260101 --budget 10m", "then resume it")
      .exits({kSystem, kHeld})
      .json(kAnswer)
      .action([extend_options] { return extend(*extend_options); });
}

}  // namespace ridge::cli
