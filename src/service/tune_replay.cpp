#include "service/tune_replay.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/large_file.h"
#include "record/tuning_cache.h"
#include "search/benchmark.h"
#include "service/replay_campaign.h"

namespace ridge::service {
namespace {

constexpr std::size_t kTuningCacheBytes = std::size_t{512} << 20;

// With a problem: every row has to be a configuration of its space.
Status check_against(const Context& context, const search::Space& space, const record::TuningCache& cache) {
  for (std::size_t i = 0; i < cache.rows.size(); ++i) {
    RIDGE_TRY(point, record::positions_in(space.parameters(), cache, cache.rows[i]));
    if (const Status fits = space.check(point); !fits) {
      return in_context(fmt::format("row {}", i + 1), fits.error());
    }
  }
  if (cache.rows.size() < space.count())
    context.note(
        fmt::format("{} of the {} configurations of the space are recorded", cache.rows.size(), space.count()));
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

struct PastFile {
  std::filesystem::path path;
  search::PastSource source;
};

Result<std::vector<PastFile>> read_past(const std::vector<std::string>& paths) {
  std::vector<PastFile> past;
  for (const std::string& path : paths) {
    RIDGE_TRY(text, read_file_up_to(path, kTuningCacheBytes));
    const auto cache = record::parse_tuning_cache(text);
    if (!cache) return in_context(path, cache.error());
    RIDGE_TRY(source, search::PastSource::of(*cache));
    past.push_back({path, std::move(source)});
  }
  return past;
}

// What all replays of one call share.
struct Shared {
  std::optional<search::Space> problem;
  std::vector<PastFile> past;
  std::vector<record::TuningRun> runs;
  std::optional<ReplayedKernel> kernel;
};

Result<Shared> shared_of(const TuneReplayRequest& options) {
  RIDGE_TRY(problem, space_of_problem(options.space));
  RIDGE_TRY(past, read_past(options.past));
  Shared shared{std::move(problem), std::move(past), {}, {}};
  if (!options.kernel.empty()) {
    RIDGE_TRY(kernel, replayed_kernel(options.kernel));
    shared.kernel = std::move(kernel);
  }
  if (options.runs.empty()) return shared;
  RIDGE_TRY(text, read_file_up_to(options.runs, kTuningCacheBytes));
  auto runs = record::parse_tuning_runs(text);
  if (!runs) return in_context(options.runs, runs.error());
  shared.runs = std::move(*runs);
  return shared;
}

// The runs of a recording, by strategy in the order of the file.
std::vector<std::vector<record::TuningRun>> runs_of(const std::vector<record::TuningRun>& runs,
                                                    const std::string& recording) {
  std::vector<std::vector<record::TuningRun>> groups;
  for (const record::TuningRun& run : runs) {
    if (run.recording != recording) continue;
    auto found = std::ranges::find_if(groups, [&](const auto& one) { return one[0].strategy == run.strategy; });
    if (found == groups.end()) found = groups.insert(groups.end(), std::vector<record::TuningRun>());
    found->push_back(run);
  }
  return groups;
}

constexpr const char* kCampaign = "campaign";  // the strategy that is a campaign's proposer

Result<record::ReplayRow> replay_proposer(const search::Recording& recording, const record::TuningCache& cache,
                                          const std::optional<ReplayedKernel>& kernel,
                                          const search::BenchmarkOptions& options) {
  if (!kernel) {
    return with_hint(invalid("strategy \"{}\" searches the tunables of a kernel", kCampaign),
                     "name its source: --kernel src/ops/matmul/cuda_wgmma.cu");
  }
  std::vector<record::TuningRun> runs;
  for (std::size_t i = 0; i < options.seeds; ++i) {
    RIDGE_TRY(run, replay_campaign(cache, *kernel, static_cast<std::int64_t>(options.first_seed + i),
                                   options.most_evaluations));
    runs.push_back(std::move(run));
  }
  return search::benchmark_recorded(recording, runs, options);
}

Status replay_one(const Context& context, const std::string& path, const Shared& shared,
                  const TuneReplayRequest& options, record::ReplayReport& report) {
  RIDGE_TRY(text, read_file_up_to(path, kTuningCacheBytes));
  RIDGE_TRY(cache, record::parse_tuning_cache(text));
  if (shared.problem) RIDGE_CHECK_OK(check_against(context, *shared.problem, cache));
  RIDGE_TRY(recording, search::recording_of(cache));
  std::vector<search::PastSource> past;
  for (const PastFile& one : shared.past) {
    std::error_code unknown;
    if (!std::filesystem::equivalent(one.path, path, unknown)) past.push_back(one.source);
  }
  const search::BenchmarkOptions runs{static_cast<std::size_t>(options.seeds),
                                      static_cast<std::uint64_t>(options.first_seed),
                                      static_cast<std::size_t>(options.evaluations), !options.score, past};
  const std::string name = std::filesystem::path(path).stem().string();
  const auto add = [&](record::ReplayRow row) {
    row.space = name;
    row.kernel = cache.kernel;
    row.device = cache.device;
    report.rows.push_back(std::move(row));
  };
  for (const std::string& strategy : options.strategies) {
    RIDGE_TRY(row, strategy == kCampaign ? replay_proposer(recording, cache, shared.kernel, runs)
                                         : search::benchmark(recording, strategy, runs));
    if (strategy == "ours" && !past.empty()) row.strategy = "ours with past";
    add(std::move(row));
  }
  for (const auto& group : runs_of(shared.runs, name)) {
    auto row = search::benchmark_recorded(recording, group, runs);
    if (!row) return in_context(options.runs, row.error());
    add(std::move(*row));
  }
  return ok_status();
}

}  // namespace

Result<record::ReplayReport> replay_tuning(const Context& context, TuneReplayRequest options) {
  if (options.strategies.empty()) options.strategies = {"ours"};
  if (options.seeds < 1 || options.evaluations < 1) {
    return invalid("--seeds {} and --evaluations {} must be at least 1", options.seeds, options.evaluations);
  }
  RIDGE_TRY(shared, shared_of(options));
  record::ReplayReport report;
  report.most_evaluations = options.evaluations;
  for (const std::string& path : options.caches) {
    if (const Status done = replay_one(context, path, shared, options, report); !done)
      return in_context(path, done.error());
  }
  report.means = search::means_of(report.rows, static_cast<std::size_t>(options.evaluations));
  for (const bool curves : {false, true}) {
    const std::string& path = curves ? options.curves : options.csv;
    if (!path.empty()) RIDGE_CHECK_OK(write_file_durably(path, record::replay_csv(report.rows, curves)));
  }
  return report;
}

}  // namespace ridge::service
