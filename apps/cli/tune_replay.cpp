#include "tune_replay.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/large_file.h"
#include "record/json.h"
#include "record/tuning_cache.h"
#include "record/tuning_replay.h"
#include "say.h"
#include "search/benchmark.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

constexpr std::size_t kTuningCacheBytes = std::size_t{512} << 20;

struct ReplayOptions {
  std::vector<std::string> caches, strategies;
  std::string space, csv, curves;
  std::int64_t seeds = 100, first_seed = 1, evaluations = 500;
  bool score = false;
};

// With a problem: every row has to be a configuration of its space.
Status check_against(const search::Space& space, const record::TuningCache& cache) {
  for (std::size_t i = 0; i < cache.rows.size(); ++i) {
    RIDGE_TRY(point, record::positions_in(space.parameters(), cache, cache.rows[i]));
    if (const Status fits = space.check(point); !fits) {
      return in_context(fmt::format("row {}", i + 1), fits.error());
    }
  }
  if (!globals().quiet && cache.rows.size() < space.count()) {
    say(stderr, "{} of the {} configurations of the space are recorded\n", cache.rows.size(), space.count());
  }
  return ok_status();
}

Result<std::optional<search::Space>> space_of_problem(const std::string& path) {
  if (path.empty()) return std::optional<search::Space>();
  RIDGE_TRY(text, read_file(path));
  auto definition = record::parse_tuning_problem(text);
  if (!definition) return in_context(path, definition.error());
  auto space = search::Space::create(std::move(*definition));
  if (!space) return in_context(path, space.error());
  return std::optional<search::Space>(std::move(*space));
}

Status replay_one(const std::string& path, const std::optional<search::Space>& problem, const ReplayOptions& options,
                  record::ReplayReport& report) {
  RIDGE_TRY(text, read_file_up_to(path, kTuningCacheBytes));
  RIDGE_TRY(cache, record::parse_tuning_cache(text));
  if (problem) RIDGE_CHECK_OK(check_against(*problem, cache));
  RIDGE_TRY(recording, search::recording_of(cache));
  const search::BenchmarkOptions runs{static_cast<std::size_t>(options.seeds),
                                      static_cast<std::uint64_t>(options.first_seed),
                                      static_cast<std::size_t>(options.evaluations), !options.score};
  for (const std::string& strategy : options.strategies) {
    RIDGE_TRY(row, search::benchmark(recording, strategy, runs));
    row.space = std::filesystem::path(path).stem().string();
    row.kernel = cache.kernel;
    row.device = cache.device;
    report.rows.push_back(std::move(row));
  }
  return ok_status();
}

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

int tune_replay(ReplayOptions options) {
  if (options.strategies.empty()) options.strategies = {"ours"};
  if (options.seeds < 1 || options.evaluations < 1) {
    return fail(invalid("--seeds {} and --evaluations {} must be at least 1", options.seeds, options.evaluations));
  }
  const auto problem = space_of_problem(options.space);
  if (!problem) return fail(problem.error());
  record::ReplayReport report;
  report.most_evaluations = options.evaluations;
  for (const std::string& path : options.caches) {
    if (const Status done = replay_one(path, *problem, options, report); !done)
      return fail(in_context(path, done.error()));
  }
  report.means = search::means_of(report.rows, static_cast<std::size_t>(options.evaluations));
  for (const bool curves : {false, true}) {
    const std::string& path = curves ? options.curves : options.csv;
    if (path.empty()) continue;
    if (const Status written = write_file_durably(path, record::replay_csv(report.rows, curves)); !written) {
      return fail(written.error());
    }
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(report));
  } else {
    print_replay(report, options.score);
  }
  return kSuccess;
}

}  // namespace

void define_tune_replay(Command& tune) {
  auto options = std::make_shared<ReplayOptions>();
  tune.inner_command("replay", "How a search does on recorded measurements of a whole space, without a GPU")
      .positional("cache", options->caches, "Cache files of Kernel Tuner, or results in the T4 format")
      .option("--strategy ours|random|local", options->strategies, "Which search (repeatable; default: ours)")
      .option("--seeds N", options->seeds, "Runs of each")
      .option("--first-seed N", options->first_seed, "The runs have this seed and those after it")
      .option("--evaluations N", options->evaluations, "A run has at most so many")
      .flag("--score", options->score,
            "The published scores: 0 is random search, 1 the optimum at once; runs end where the score does")
      .option("--space FILE", options->space, "The problem (T1) whose space the rows must belong to")
      .option("--csv FILE", options->csv, "Also write a line per space and strategy")
      .option("--curves FILE", options->curves, "Also write what was attained after every evaluation")
      .example("ridge tune replay convolution_A100_T4.json --strategy ours --strategy random --seeds 100 --score",
               "our search and random search on a public recording")
      .exits({kSystem, kInterrupted})
      .json("a row per space and strategy with scores, evaluations and curves, and the means of each strategy")
      .action([options] { return tune_replay(*options); });
}

}  // namespace ridge::cli
