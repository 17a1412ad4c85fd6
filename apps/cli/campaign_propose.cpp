#include "campaign_propose.h"

#include <fmt/format.h>

#include "campaign_run.h"
#include "context.h"
#include "say.h"
#include "service/campaign_propose.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int propose_by_hand(const Context& context, const service::ProposeRequest& request) {
  const Result<service::Proposed> proposed = service::propose_round(context, request);
  if (!proposed) return fail(proposed.error());
  if (!proposed->decided) {
    say_how_to_go_on(request.directory);
    return interruptions() > 0 ? kInterrupted : kPaused;
  }
  const record::RoundSummary& round = *proposed->decided;
  const int code = round.accepted ? kSuccess : kNo;
  if (globals().json) return print_json(round, code);
  const campaign::State& state = proposed->ran.state;
  say("{}\n", painted_lines(fmt::format("Round {} ({}): {}: {}", round.round, round.proposer,
                                        record::name_of(round.state), round.reason)));
  if (state.terminated()) say("The campaign has ended: {}\n", state.termination->detail);
  say("Details: {0}/rounds/round-{1}/summary.md\nNext: {2}\n", request.directory, round.round,
      state.terminated() ? "ridge campaign status " + request.directory
                         : "another round by hand, or ridge campaign resume " + request.directory);
  return code;
}

}  // namespace

void define_campaign_propose(Command group) {
  auto options = std::make_shared<service::ProposeRequest>();
  Command command = group.subcommand("propose",
                                     "One round by hand: state a change, have it built, checked, measured "
                                     "and decided");
  add_run_options(command, options->run);
  command.positional("directory", options->directory, "Folder of the campaign")
      .option("--kernel FILE", options->kernel, "The changed source, in place of the best one's")
      .option("-D,--define,--defines NAME=VALUE", options->defines,
              "Values of tunables, several after commas; the others stay as they are (repeatable)")
      .option("--title TEXT", options->title, "What changes, in one line")
      .option("--reason TEXT", options->reason, "Why it should be faster")
      .option("--expect GAIN", options->expect, "What you expect before it is measured: 8% or 1.08x")
      .option("--category NAME", options->category,
              "tile, layout, pipeline, resource, backend or algorithm (default: of the tunable; else algorithm)")
      .option("--bottleneck NAME", options->bottleneck,
              "compute, memory, latency, resource or launch (default: what bounds the slowest shape)")
      .option("--risk TEXT", options->risks, "What may go wrong (repeatable)")
      .option("--signal TEXT", options->signal, "What would show it (default: half of the expected gain)")
      .option("--informed-by", options->informed_by,
              "The round that led here (default: the last one that was rolled back)")
      .option("--by NAME", options->by, "Your name, for the record")
      .option("--model NAME", options->model, "The language model that made it, for the cost log")
      .option("--turns N", options->turns, "Its turns for this round")
      .option("--input-tokens N", options->input_tokens, "Tokens that it was sent")
      .option("--output-tokens N", options->output_tokens, "Tokens that it made")
      .option("--usd X", options->usd, "What that cost, in dollars")
      .flag("--give-up", options->give_up, "End a round whose kernel failed, instead of repairing it")
      .example(
          "ridge campaign propose campaigns/gemm_cpu_xeon_20260101 --defines MR=6,NV=2 --title 'a taller tile' "
          "--reason 'each row of B is used six times' --expect 8%",
          "values of tunables that the source declares")
      .example(
          "ridge campaign propose campaigns/gemm_cpu_xeon_20260101 --kernel mine.cpp --title 'pack B' --reason "
          "'its rows lie in different pages' --expect 1.2x",
          "your own source; exit code 0 when it was accepted, 1 when not")
      .example("ridge campaign propose campaigns/gemm_cpu_xeon_20260101 --kernel mine.cpp",
               "the corrected source, after one that did not build")
      .exits({{kNo, "the round was decided, and not accepted"},
              kUnavailable,
              kSystem,
              {kHeld, "another process works on it, it has ended, or its baseline is not measured"},
              kPaused,
              kInterrupted})
      .json("the round: hypothesis, proposer, candidate, state, reason and gain")
      .action([options](const Context& context) { return propose_by_hand(context, *options); });
}

}  // namespace ridge::cli
