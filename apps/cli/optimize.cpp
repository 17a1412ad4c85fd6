// ridge optimize: starts a campaign.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "base/clock.h"
#include "base/error.h"
#include "campaign/anchor.h"
#include "campaign/iterations.h"
#include "campaign/machines.h"
#include "campaign/manifest.h"
#include "campaign/target.h"
#include "campaign/upstream.h"
#include "campaign_run.h"
#include "say.h"
#include "service/campaigns.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct OptimizeOptions {
  service::DraftRequest request;
  bool yes = false;
};

void show(const record::CampaignSpec& spec, const fs::path& directory) {
  say(stderr, "Campaign {} in {}\n", spec.id, directory.string());
  say(stderr, "  operator      {} on {} ({}), {} thread{}\n", spec.op, spec.backend, spec.gpu, spec.protocol.threads,
      spec.protocol.threads == 1 ? "" : "s");
  say(stderr, "  starts from   {}\n", spec.kernel_source);
  if (const auto upstream = campaign::upstream_of(spec))
    say(stderr, "  workspace     {}, in {}\n", campaign::text_of(*upstream),
        (directory / campaign::kProjectFolder).string());
  say(stderr, "  judged by     {}\n", spec.primary_metric);
  for (const record::Case& c : spec.target_cases) say(stderr, "  shape         {}\n", c.label());
  say(stderr, "  ends at       {:.0f} % of the measured roofline", 100 * spec.efficiency_target);
  if (spec.performance_target) say(stderr, ", or {}", campaign::format_target(*spec.performance_target));
  if (spec.wall_budget > 0) say(stderr, ", or after {}", format_duration(spec.wall_budget));
  if (spec.max_iterations) say(stderr, ", or after {} rounds", *spec.max_iterations);
  say(stderr, "\n  accepts       gains above {:.1f} %; chance of any false accept at most {:.0f} % in {} decision{}\n",
      100 * spec.protocol.min_effect, 100 * spec.protocol.alpha, spec.protocol.max_decisions,
      spec.protocol.max_decisions == 1 ? "" : "s");
  for (const std::string& one : campaign::constraints_of(spec)) say(stderr, "  keeps to      {}\n", one);
  if (spec.git_commit && spec.git_branch != "auto") say(stderr, "  commits to    {}\n", spec.git_branch);
  say(stderr, "  proposer      {}\n", spec.proposer);
  const campaign::Machines machines = campaign::machines_of(spec);
  if (!machines.build.empty()) say(stderr, "  builds on     {}\n", machines.build);
  if (!machines.screen.empty()) say(stderr, "  looks on      {}\n", machines.screen);
  if (!machines.measure.empty()) say(stderr, "  measures on   {}\n", machines.measure);
  if (!machines.replicate.empty()) say(stderr, "  replicates on {}\n", machines.replicate);
  if (const auto key = campaign::signing_key_of(spec); key && *key) {
    say(stderr, "  signed by     {}\n", campaign::key_text(**key));
  }
}

// "prompt" or "--yes", or an error without a terminal to ask on.
Result<std::string> ask(bool yes, const fs::path& directory) {
  if (yes) return std::string("--yes");
  const Error unanswered = with_hint(
      make_error(ErrorCode::kConflict, "the campaign is drafted in {} and waits for confirmation", directory.string()),
      fmt::format("edit {0}/manifest.yaml if you like, then: ridge campaign confirm {0} && ridge campaign resume {0}",
                  directory.string()));
  if (::isatty(STDIN_FILENO) != 1) return unanswered;
  say(stderr, "Start? [y]es, or [n]o to edit manifest.yaml first: ");
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "yes") return std::string("prompt");
  return unanswered;
}

}  // namespace

int optimize(const Context& context, service::DraftRequest request, bool yes) {
  const service::RunRequest run = request.run;
  const Result<service::Draft> draft = service::draft_campaign(context, std::move(request));
  if (!draft) return fail(draft.error());
  if (!globals().quiet) show(draft->spec, draft->directory);
  const Result<std::string> by = ask(yes, draft->directory);
  if (!by) return fail(by.error());
  const auto confirmed = service::confirm_draft(draft->directory, *by);
  return confirmed ? run_and_conclude(context, draft->directory, run) : fail(confirmed.error());
}

void define_optimize(Command root) {
  auto options = std::make_shared<OptimizeOptions>();
  Command command = root.subcommand("optimize", "Take a kernel to the limit of this machine in verified rounds");
  add_run_options(command, options->request.run);
  command
      .positional("operator", options->request.op, "Operator, for instance gemm, or a shipped kernel: gemm_bf16", false)
      .positional("case", options->request.words,
                  "Shapes, for instance m=256,512 n=512 k=512 (default: the operator's own)", false)
      .option("--on cpu|cuda", options->request.backend, "Backend: cpu, or cuda for the GPU of this machine")
      .option("--project DIR", options->request.project,
              "A project's folder or ridge-project.toml, instead of an operator of Ridgeline")
      .option("--mode repo|workspace", options->request.mode,
              "Of a project: repo copies its folder as it is (default); workspace extracts the commit that HEAD names "
              "into the campaign, and every accepted round passes in the whole project")
      .option("--workspace DIR", options->request.workspace,
              "A folder of ridge workspace init: its kernel, its cases or reference, and its memory, instead of an "
              "operator")
      .option("--kernel FILE", options->request.kernel, "Source to start from (default: the shipped plain kernel)")
      .option("-D,--define NAME=VALUE", options->request.defines, "NAME=VALUE of a tunable to start from (repeatable)")
      .option("--proposer NAME", options->request.proposer, "search[:SEED], replay:JOURNAL, command:CMD or manual")
      .option("--seed", options->request.seed, "Of what the search draws at random: the same as --proposer search:SEED")
      .option("--budget TIME", options->request.budget, "Active time, for instance 5m or 1h30m (default: none)")
      .option("--max-iterations", options->request.max_iterations,
              "Rounds after the baseline, 1 to 119 (default: none)")
      .option("--target CONDITION", options->request.target,
              "Stop when reached, for instance 'forward_tflops >= 0.15 TFLOPS on all', 'step 700 TFLOPS', "
              "'latency < 20 us' or '95 % of the bandwidth ceiling'")
      .option(
          "--metric NAME", options->request.metric,
          "What a project's campaign makes better, for instance combined_step_tflops (the default where its table has "
          "a backward pass), latency_p99 or column:NAME:higher")
      .option("--efficiency FRACTION", options->request.efficiency, "Stop at this fraction of the measured roofline")
      .option("--min-effect FRACTION", options->request.min_effect, "Smallest gain worth accepting, as a fraction")
      .option(
          "--planned", options->request.planned,
          "How many decisions share the 5 % chance of any false accept, 1 to 120; it ends when they are used, and each "
          "of fewer takes fewer sessions")
      .option("--max-foreign-load FRACTION", options->request.max_foreign_load,
              "A machine is busy when others use more of the processors than this fraction")
      .option("--max-steal FRACTION", options->request.max_steal,
              "And when the hypervisor takes more of them than this")
      .option("--threads", options->request.threads, "CPU threads of one call")
      .option("--measure-on PLACE", options->request.machines.measure,
              "Where to check and measure: local (the default), slurm[:partition=NAME,gres=gpu:1,...] or "
              "ssh:HOST[,HOST...]; all of a campaign on one device")
      .option("--screen-on PLACE", options->request.machines.screen,
              "Devices of the same kind that share the looks at a sweep's configurations, for instance local:0,1,2,3 "
              "(default: where it measures)")
      .option("--build-on PLACE", options->request.machines.build,
              "Where to build ahead (default: where it measures); machines of the same kind that share the cache")
      .option("--replicate-on PLACE", options->request.machines.replicate,
              "Where to compare best and baseline once more at the end, beside the campaign's own final measurement: "
              "another device, as for --measure-on; nothing is decided by it")
      .option("--directory DIR", options->request.directory, "Where the campaign lives (default: campaigns/<id>)")
      .option("--timestamp-command COMMAND", options->request.timestamp_command,
              "Stamps heads of the journal: reads a hash on standard input, and its output is kept")
      .option("--branch NAME", options->request.branch,
              "Branch that accepted rounds are committed to, or none (default: optimize/<id>)")
      .option("--constraint TEXT", options->request.constraints,
              "What a kernel must keep to that no gate checks, told to every proposer (repeatable)")
      .flag("-y,--yes", options->yes, "Confirm without asking")
      .flag("--no-git", options->request.no_git, "Keep the lineage without git commits")
      .example("ridge optimize gemm --yes --budget 5m", "the shipped plain kernel, with the search proposer")
      .example("ridge optimize gemm m=256 n=256 k=64,256 --kernel mine.cpp",
               "your kernel on your shapes; asks before it starts")
      .example("ridge optimize gemm --branch kernels/gemm --constraint 'no inline assembly'",
               "what the manifest binds and every proposer is told")
      .example("ridge optimize gemm --proposer 'command:python3 agent.py'",
               "proposals from any program that speaks JSON")
      .example(
          "ridge optimize gemm_bf16 --on cuda --yes --budget 10m",
          "the shipped matrix-unit kernel on the GPU; gemm_fp8_blockwise is another, and so is every operator whose "
          "kernel has tunables: rmsnorm")
      .example("ridge optimize matmul --project . --mode workspace --yes --budget 20m",
               "a commit of the project, extracted into the campaign: work on in the repository meanwhile")
      .example(
          "ridge optimize matmul --project . --metric latency --target 'latency < 20 us' --proposer 'command:agent'",
          "a project, judged by a time of its table; ridge handoff says what its table gives")
      .example("ridge optimize gemm --measure-on slurm:partition=cpu --yes --budget 10m",
               "every measurement is a job of Slurm, on one node")
      .example("ridge optimize gemm_bf16 --on cuda --replicate-on ssh:other --yes --budget 10m",
               "and whether the gain holds on the GPU of another machine")
      .example("ridge optimize --workspace fast_gemm --yes --budget 5m",
               "the kernel of a workspace; every round is kept in its memory/")
      .exits({kUnavailable,
              kSystem,
              {kHeld, "it waits for confirmation, the folder is taken, or another process runs it"},
              kPaused,
              kInterrupted})
      .json("the report, as in report/report.json of the campaign")
      .action([options](const Context& context) { return optimize(context, options->request, options->yes); });
}

}  // namespace ridge::cli
