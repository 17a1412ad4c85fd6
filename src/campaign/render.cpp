#include "campaign/render.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/inside.h"
#include "base/text.h"
#include "base/visible.h"
#include "campaign/files.h"
#include "campaign/level.h"
#include "campaign/lineage.h"
#include "campaign/manifest.h"
#include "campaign/project_table.h"
#include "campaign/quick_script.h"
#include "campaign/score.h"
#include "campaign/state.h"
#include "campaign/target.h"
#include "record/execution.h"
#include "record/json.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

void add_tree(FileMap& files, const std::string& folder, const record::Candidate& candidate) {
  for (auto& [path, content] : tree_of(candidate)) files[folder + "/kernel_snapshot/" + path] = content;
}

std::string build_log(const record::BuildEvidence& build) {
  return fmt::format("command: {}\ncompiler: {}\nobject: {}\n\n{}\n", build.command, build.compiler, build.artifact,
                     build.log);
}

void add_round(FileMap& files, const State& state, const Round& round) {
  const std::string folder = fmt::format("rounds/round-{}", round.number);
  files[folder + "/summary.md"] = render_round_summary(state, round);
  if (const record::Candidate* candidate = round.last().candidate()) add_tree(files, folder, *candidate);
  if (!round.last().evaluated) return;
  const record::Evaluation& baseline = state.baseline->evaluation;
  const record::Evaluation& evaluation = round.last().evaluated->evaluation;
  files[folder + "/artifacts/benchmark.csv"] =
      render_benchmark(state.spec(), cases_of_level(state, level_of(round)), evaluation, baseline);
  if (evaluation.table) files[folder + "/artifacts/project_benchmark.csv"] = *evaluation.table;
  if (const std::optional<record::Evaluated>& quick = round.last().quick) {
    files[folder + "/artifacts/quick_benchmark.csv"] =
        render_benchmark(state.spec(), cases_of_level(state, quick->level), quick->evaluation, baseline);
  }
  if (!evaluation.build.command.empty()) files[folder + "/artifacts/build.log"] = build_log(evaluation.build);
}

void add_baseline(FileMap& files, const State& state) {
  const record::Evaluation& evaluation = state.baseline->evaluation;
  if (!record::is_of_project(state.spec())) files[kQuickScript] = render_quick_script(state.spec());
  files["rounds/round-1/summary.md"] = render_baseline_summary(state);
  add_tree(files, "rounds/round-1", state.baseline->candidate);
  files["rounds/round-1/artifacts/benchmark.csv"] =
      render_benchmark(state.spec(), state.spec().target_cases, evaluation, evaluation);
  if (evaluation.table) files["rounds/round-1/artifacts/project_benchmark.csv"] = *evaluation.table;
  if (!evaluation.build.command.empty()) files["rounds/round-1/artifacts/build.log"] = build_log(evaluation.build);
}

// Population standard deviation; `otherwise` of fewer than two values.
double deviation_of(const std::vector<double>& values, double otherwise) {
  const double n = static_cast<double>(values.size());
  return values.size() < 2 ? otherwise : stats::standard_deviation(values) * std::sqrt((n - 1) / n);
}

// Of the candidate's rate over sessions.
double throughput_deviation(const record::Evaluation& evaluation, const record::RooflinePoint& point, Rate rate) {
  std::vector<double> values;
  for (const record::Session& session : evaluation.sessions) {
    const std::vector<double> times = launches(std::span(&session, 1), point.label, Arm::kCandidate);
    if (!times.empty()) values.push_back(rate.of(point.cost, stats::median(times)));
  }
  return deviation_of(values, 0.0);
}

// The same of one direction of a project's table; NaN of fewer than two sessions. A direction that is no column of its
// own in the sessions is what the primary metric counts.
double direction_deviation(const record::Evaluation& evaluation, const std::string& label,
                           const record::DirectionPoint& direction, Rate rate) {
  std::vector<double> values;
  for (const record::Session& session : evaluation.sessions) {
    std::vector<double> times = column_values(std::span(&session, 1), direction.name, label, Arm::kCandidate);
    if (times.empty()) times = launches(std::span(&session, 1), label, Arm::kCandidate);
    if (!times.empty()) values.push_back(rate.of(direction.cost, stats::median(times)));
  }
  return deviation_of(values, std::nan(""));
}

std::string check_word(const record::CheckRow* row, const record::Evaluation& evaluation) {
  const record::Outcome outcome = row != nullptr ? row->outcome : evaluation.outcome;
  if (!settles(outcome)) return "ERROR";  // the word of that column for what was not checked
  return row != nullptr && outcome == record::Outcome::kPass ? "PASS" : "FAIL";
}

template <class List>
const typename List::value_type* with_label(const List& list, const std::string& label) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.label == label; });
  return found == list.end() ? nullptr : &*found;
}

// The cells of these columns in the row of a label of a project's own table; empty where it has no such column.
std::vector<std::string> cells_of_table(const std::optional<std::string>& table, const std::string& label,
                                        std::span<const char* const> columns) {
  std::vector<std::string> found;
  const std::vector<std::string> lines = table ? split(*table, '\n') : std::vector<std::string>();
  if (lines.empty()) return found;
  const std::vector<std::string> names = csv_cells(trimmed(lines.front()));
  const auto at = [&](std::string_view name) { return std::ranges::find(names, name) - names.begin(); };
  if (static_cast<std::size_t>(at("label")) == names.size()) return found;
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = csv_cells(trimmed(line));
    if (cells.size() != names.size() || cells[static_cast<std::size_t>(at("label"))] != label) continue;
    for (const char* const column : columns) {
      if (const auto place = static_cast<std::size_t>(at(column)); place < cells.size()) found.push_back(cells[place]);
    }
  }
  return found;
}

// B, M, N and K of a label as the round's table says, or else the baseline's: a candidate that gave no table has the
// same shapes.
std::vector<std::string> shape_cells(const std::string& label, const record::Evaluation& evaluation,
                                     const record::Evaluation& baseline) {
  constexpr const char* kShape[] = {"B", "M", "N", "K"};
  std::vector<std::string> cells = cells_of_table(evaluation.table, label, kShape);
  if (cells.size() != std::size(kShape)) cells = cells_of_table(baseline.table, label, kShape);
  cells.resize(std::size(kShape), "nan");
  return cells;
}

// benchmark.csv of a project: a row for each shape, medians over the processes of the candidate, and the shape's B, M,
// N and K where its table says so. Its columns and their unit are the baseline's: a candidate that failed its checks
// was not timed.
std::string project_benchmark(const record::Metric& metric, const std::vector<record::Case>& cases,
                              const record::Evaluation& evaluation, const record::Evaluation& baseline) {
  const std::vector<record::RooflinePoint> points = measured_roofline(baseline.roofline, evaluation.sessions);
  const Rate rate{std::ranges::any_of(baseline.roofline, [](const auto& point) { return point.cost.bytes > 0; })};
  const bool own = metric.quantity == record::Quantity::kSeconds || metric.quantity == record::Quantity::kColumn;
  const bool shaped = !cases.empty() && shape_cells(cases.front().get("label"), baseline, baseline).front() != "nan";
  std::string csv = fmt::format(
      "label,{1}Check,Forward {0},Forward {0}_stddev,Backward {0},Backward {0}_stddev,Forward Time (ms),"
      "Backward Time (ms),{2}out_snr,da_snr,db_snr\r\n",
      rate.unit(), shaped ? "B,M,N,K," : "", own ? csv_cell(title_of(metric)) + "," : "");
  for (const record::Case& one : cases) {
    const std::string label = one.label();
    const auto point = std::ranges::find(points, label, &record::RooflinePoint::label);
    double rates[2] = {std::nan(""), std::nan("")}, times[2] = {std::nan(""), std::nan("")};
    double deviations[2] = {std::nan(""), std::nan("")};
    for (std::size_t i = 0; point != points.end() && i < point->directions.size(); ++i) {
      const record::DirectionPoint& direction = point->directions[i];
      const std::size_t at = direction.name == "backward" ? 1 : 0;
      rates[at] = rate.of(direction.cost, direction.latency);
      times[at] = direction.latency * 1e3;
      deviations[at] = direction_deviation(evaluation, label, direction, rate);
    }
    csv += csv_cell(label);
    if (shaped) {
      for (const std::string& cell : shape_cells(one.get("label"), evaluation, baseline)) csv += "," + csv_cell(cell);
    }
    csv += fmt::format(",{},{},{},{},{},{},{}", check_word(with_label(evaluation.checks, label), evaluation), rates[0],
                       deviations[0], rates[1], deviations[1], times[0], times[1]);
    if (own) csv += fmt::format(",{}", point == points.end() ? std::nan("") : metric_value(metric, *point));
    for (const char* const noise : {"out_snr", "da_snr", "db_snr"})
      csv += fmt::format(",{}", stats::median(column_values(evaluation.sessions, noise, label, Arm::kCandidate)));
    csv += "\r\n";
  }
  return csv;
}

}  // namespace

namespace {

// Read by people: the rest is read by programs, is a candidate's own source, or is what a program wrote.
bool is_page(const std::string& path) {
  return path.ends_with(".md") && path.find("/kernel_snapshot/") == std::string::npos;
}

}  // namespace

FileMap render_campaign(const State& state, std::size_t first_round) {
  FileMap files;
  if (!state.created) return files;
  files[kManifestFile] = render_manifest(manifest_of(state));
  if (state.confirmed) files[kConfirmedFile] = state.confirmed->spec_digest + "\n";
  if (!state.baseline_committed) return files;
  files["logs/optimize.md"] = render_optimize_log(state);
  files["logs/performance_trend.md"] = render_trend(state, rate_of(state));
  files["logs/cost.md"] = render_cost(state);
  files["verified_ineffective.jsonl"] = render_ineffective(state);
  if (first_round == 0) add_baseline(files, state);
  for (std::size_t i = first_round; i < state.rounds.size(); ++i) {
    const Round& round = state.rounds[i];
    if (!round.closed()) continue;
    add_round(files, state, round);
  }
  for (auto& [path, content] : files) {
    if (is_page(path)) content = visible(content);
  }
  return files;
}

bool rendered_here(const State& state) { return !state.prepared || state.prepared->rendering == record::kRendering; }

record::CampaignSpec manifest_of(const State& state) {
  record::CampaignSpec spec = state.spec();
  spec.wall_budget = state.wall_budget;
  spec.max_iterations = state.max_iterations;
  if (state.baseline) spec.representative_labels = state.baseline->representative_labels;
  return spec;
}

bool is_append_only(const std::string& path) {
  return path == "logs/optimize.md" || path == "logs/performance_trend.md" || path == "logs/cost.md" ||
         path == "verified_ineffective.jsonl";
}

Status write_campaign_files(const std::filesystem::path& directory, const FileMap& files) {
  for (const auto& [path, content] : files) {
    const Result<std::string> old = read_file(directory / path);
    if (old && *old == content) continue;
    if (old && is_append_only(path) && !std::string_view(content).starts_with(*old)) {
      RIDGE_CHECK_OK(write_file_durably(directory / (path + ".edited"), *old));
    }
    RIDGE_CHECK_OK(write_inside(directory, path, content));
  }
  return ok_status();
}

std::string render_benchmark(const record::CampaignSpec& spec, const std::vector<record::Case>& cases,
                             const record::Evaluation& evaluation, const record::Evaluation& baseline) {
  if (const std::optional<record::Metric> metric = project_metric(spec))
    return project_benchmark(*metric, cases, evaluation, baseline);
  const std::vector<record::RooflinePoint> points = measured_roofline(baseline.roofline, evaluation.sessions);
  const bool product = are_products(cases);
  const char* const backward = product ? ",nan,nan" : "";  // a session times one call
  std::string csv = benchmark_header(cases) + "\r\n";
  const double nan = std::nan("");
  for (const record::Case& one : cases) {
    const std::string label = one.label();
    const record::CheckRow* check = with_label(evaluation.checks, label);
    const record::RooflinePoint* point = with_label(points, label);
    const double latency = point != nullptr ? point->latency : nan;
    const auto rates = [&](Rate rate) {
      return fmt::format(",{},{}", point != nullptr ? rate.of(point->cost, latency) : nan,
                         point != nullptr ? throughput_deviation(evaluation, *point, rate) : nan);
    };
    csv += csv_cell(label) + (product ? ",1" : "");
    for (const ShapeColumn& column : shape_columns(cases)) csv += "," + csv_cell(one.get(column.param));
    csv += fmt::format(",{}{}{}", check_word(check, evaluation), rates({}), product ? backward : rates({true}));
    csv += fmt::format(",{}{},{}{}\r\n", latency * 1e3, product ? ",nan" : "", check != nullptr ? check->snr_db : nan,
                       backward);
  }
  return csv;
}

std::string render_ineffective(const State& state) {
  std::string lines;
  for (const Round& round : state.rounds) {
    if (!round.rolled_back || round.state() != record::RoundState::kRolledBack) continue;
    record::Ineffective line;
    line.round = round.number;
    line.direction = round.last().proposal.hypothesis.title;
    line.reason = round.decision->reason;
    if (const record::Candidate* candidate = round.last().candidate()) {
      for (const record::SourceFile& source : candidate->sources) line.modified_files.push_back(source.path);
    }
    lines += record::to_line(line) + "\n";
  }
  return lines;
}

std::string cell(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    if (c == '|') c = '/';
  }
  return result;
}

std::string aggregate_text(const State& state, const std::vector<record::RooflinePoint>& points) {
  if (const std::optional<record::Metric> metric = project_metric(state.spec()))
    return fmt::format("{} {} (geomean of {})", rate_text(metric_value(*metric, points)), metric->unit(), metric->name);
  const Rate rate = rate_of(state);
  return fmt::format("{} {} (geomean)", rate_text(geomean_rate(points, rate)), rate.unit());
}

std::string_view ceiling_words(const State& state) {
  return record::is_of_project(state.spec()) ? "benchmark.peak" : "the measured ceiling";
}

std::vector<record::RooflinePoint> points_of(const State& state, const Round& round) {
  if (!round.last().evaluated) return {};
  return measured_roofline(state.baseline->evaluation.roofline, round.last().evaluated->evaluation.sessions);
}

std::string state_word(const Round& round, const char* rolled_back) {
  switch (round.state()) {
    case record::RoundState::kAccepted: return "ACCEPTED";
    case record::RoundState::kRolledBack: return rolled_back;
    case record::RoundState::kNotSettled: return "NOT SETTLED";
    case record::RoundState::kNotMeasured: return "NOT MEASURED";
    case record::RoundState::kUnfinished: break;
  }
  return "UNFINISHED";
}

std::string level_of(const Round& round) { return round.last().evaluated ? round.last().evaluated->level : "none"; }

std::string file_list(const record::Candidate& candidate) {
  std::string list;
  for (const record::SourceFile& source : candidate.sources) list += (list.empty() ? "" : ", ") + source.path;
  return list;
}

}  // namespace ridge::campaign
