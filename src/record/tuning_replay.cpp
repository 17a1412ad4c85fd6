#include "record/tuning_replay.h"

#include "base/text.h"
#include "record/archive.h"

namespace ridge::record {

template struct Codec<ReplayReport>;
template struct Codec<TuningRun>;

namespace {

template <class T>
std::string optional_cell(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

std::string curve_lines(const ReplayRow& row) {
  std::string text;
  for (std::size_t i = 0; i < row.curve.size(); ++i) {
    text += fmt::format("{},{},{},{:.6f},{:.6f}\n", csv_cell(row.space), row.strategy, i + 1, row.curve[i],
                        row.random_curve[i]);
  }
  return text;
}

}  // namespace

Result<std::vector<TuningRun>> parse_tuning_runs(std::string_view text) {
  std::vector<TuningRun> runs;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    RIDGE_TRY(run, parse_record<TuningRun>(one, fmt::format("line {}", line)));
    runs.push_back(std::move(run));
  }
  return runs;
}

std::string replay_csv(const std::vector<ReplayRow>& rows, bool curves) {
  std::string text =
      curves ? "space,strategy,evaluation,attained,attained_by_random\n"
             : "space,kernel,device,strategy,configurations,failing,seeds,evaluations,score_per_evaluation,score_low,"
               "score_high,score_over_time,evaluations_to_90,evaluations_to_95,evaluations_to_99,at_25,at_50,at_100,"
               "at_200,failures,propose_seconds,propose_seconds_most\n";
  for (const ReplayRow& row : rows) {
    if (curves) {
      text += curve_lines(row);
      continue;
    }
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{},{},{},", csv_cell(row.space),
                    csv_cell(row.kernel), csv_cell(row.device), row.strategy, row.configurations, row.failing,
                    row.seeds, row.evaluations, row.score_per_evaluation, row.score_low, row.score_high,
                    row.score_over_time, optional_cell(row.to_90), optional_cell(row.to_95), optional_cell(row.to_99));
    text += fmt::format("{:.4f},{:.4f},{:.4f},{:.4f},{:.2f},{:.3g},{:.3g}\n", row.at_25, row.at_50, row.at_100,
                        row.at_200, row.failures, row.propose_seconds, row.propose_seconds_most);
  }
  return text;
}

}  // namespace ridge::record
