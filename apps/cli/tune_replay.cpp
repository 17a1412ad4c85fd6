// ridge tune replay: how a search does on recorded measurements.
#include <fmt/format.h>

#include "say.h"
#include "service/tune_replay.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

std::string evaluations_text(const std::optional<std::int64_t>& n) { return n ? fmt::format("{}", *n) : "-"; }

void print_replay(const record::ReplayReport& report, bool score) {
  std::vector<std::string> header = {"space", "strategy", "evaluations to 90 %", "95 %", "99 %", "after 25", "50",
                                     "100",   "200"};
  if (score) header.insert(header.begin() + 2, {"score", "95 %", "over time"});
  std::vector<std::vector<std::string>> rows;
  for (const record::ReplayRow& row : report.rows) {
    std::vector<std::string> cells = {row.space, row.strategy};
    if (score) {
      cells.push_back(fmt::format("{:.3f}", row.score_per_evaluation));
      cells.push_back(fmt::format("{:.3f} to {:.3f}", row.score_low, row.score_high));
      cells.push_back(fmt::format("{:.3f}", row.score_over_time));
    }
    for (const auto& n : {row.to_90, row.to_95, row.to_99}) cells.push_back(evaluations_text(n));
    for (const double share : {row.at_25, row.at_50, row.at_100, row.at_200})
      cells.push_back(fmt::format("{:.3f}", share));
    rows.push_back(std::move(cells));
  }
  say("{}", table(header, rows));
  if (!score) return;
  for (const record::ReplayMean& mean : report.means) {
    say("{}: score {:.3f} per evaluation, {:.3f} over time; {:.0f} evaluations to 95 % (geometric mean of {} spaces)\n",
        mean.strategy, mean.score_per_evaluation, mean.score_over_time, mean.evaluations_to_95, mean.spaces);
  }
}

int tune_replay(const Context& context, const service::TuneReplayRequest& request) {
  const Result<record::ReplayReport> report = service::replay_tuning(context, request);
  if (!report) return fail(report.error());
  if (globals().json) return print_json(*report);
  print_replay(*report, request.score);
  return kSuccess;
}

}  // namespace

void define_tune_replay(Command& tune) {
  auto options = std::make_shared<service::TuneReplayRequest>();
  tune.inner_command("replay", "How a search does on recorded measurements of a whole space, without a GPU")
      .positional("cache", options->caches, "Cache files of Kernel Tuner, or results in the T4 format")
      .option("--strategy ours|random|local|campaign", options->strategies,
              "Which search (repeatable; default: ours); campaign: rounds as ridge optimize proposes them")
      .option("--kernel FILE", options->kernel, "The source whose tunables were recorded, for campaign")
      .option("--seeds N", options->seeds, "Runs of each")
      .option("--first-seed N", options->first_seed, "The runs have this seed and those after it")
      .option("--evaluations N", options->evaluations, "A run has at most so many")
      .flag("--score", options->score,
            "The published scores: 0 is random search, 1 the optimum at once; runs end where the score does")
      .option("--space FILE", options->space, "The problem (T1) whose space the rows must belong to")
      .option(
          "--past FILE", options->past,
          "A recording of another device or kernel that ours may look at (repeatable); one that is replayed itself is "
          "left out")
      .option("--runs FILE", options->runs, "Runs of other searches, to be scored as well: a line of JSON each")
      .option("--csv FILE", options->csv, "Also write a line per space and strategy")
      .option("--curves FILE", options->curves, "Also write what was attained after every evaluation")
      .example("ridge tune replay convolution_A100_T4.json --strategy ours --strategy random --seeds 100 --score",
               "our search and random search on a public recording")
      .example("ridge tune replay conv_A100.json --past conv_A4000.json --past conv_MI250X.json --score",
               "what the recordings of two other devices are worth on the third")
      .exits({kSystem, kInterrupted})
      .json("a row per space and strategy with scores, evaluations and curves, and the means of each strategy")
      .action([options](const Context& context) { return tune_replay(context, *options); });
}

}  // namespace ridge::cli
