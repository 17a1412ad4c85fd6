#include "campaign/export_view.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "campaign/manifest.h"
#include "campaign/project_table.h"
#include "campaign/quick_script.h"
#include "campaign/score.h"
#include "campaign/target.h"
#include "campaign/transition.h"
#include "record/foreign.h"
#include "record/json.h"
#include "report/shape_names.h"

namespace ridge::campaign {
namespace {

using record::EventKind;
using record::ForeignRun;
using record::Phase;
using record::RoundState;

constexpr const char* kStepMetric = "step_geomean";

// A column of the viewer's benchmark.csv and the one of ours that it holds; an empty one is not known here.
constexpr std::array<std::pair<const char*, const char*>, 17> kColumns = {
    {{"label", "label"},
     {"B", "B"},
     {"M", "M"},
     {"N", "N"},
     {"K", "K"},
     {"correct", "Check"},
     {"out_snr", "out_snr"},
     {"da_snr", "da_snr"},
     {"db_snr", "db_snr"},
     {"fwd_ms_mean", "Forward Time (ms)"},
     {"fwd_ms_std", ""},
     {"bwd_ms_mean", "Backward Time (ms)"},
     {"bwd_ms_std", ""},
     {"fwd_tflops_mean", "Forward TFLOPS"},
     {"fwd_tflops_std", "Forward TFLOPS_stddev"},
     {"bwd_tflops_mean", "Backward TFLOPS"},
     {"bwd_tflops_std", "Backward TFLOPS_stddev"}}};

std::string_view phase_word(Phase phase) {
  return phase == Phase::kConfirm ? std::string_view("USER_CONFIRM_MANIFEST") : record::name_of(phase);
}

// The phase that an event ended.
std::string_view phase_of_event(EventKind kind) {
  switch (kind) {
    case EventKind::kCreated: return phase_word(Phase::kDefineTarget);
    case EventKind::kConfirmed: return phase_word(Phase::kConfirm);
    case EventKind::kPrepared: return phase_word(Phase::kPrepare);
    case EventKind::kTipsRead: return phase_word(Phase::kTips);
    case EventKind::kBaseline:
    case EventKind::kCalibrated: return phase_word(Phase::kBaseline);
    case EventKind::kProposed:
    case EventKind::kMasked: return phase_word(Phase::kAnalyze);
    case EventKind::kScreened: return phase_word(Phase::kOptimize);
    case EventKind::kEvaluated: return phase_word(Phase::kValidate);
    case EventKind::kDecided:
    case EventKind::kIntent:
    case EventKind::kCommitted:
    case EventKind::kRolledBack: return phase_word(Phase::kDecide);
    case EventKind::kEscalated: return "STAGNATION_REVIEW";
    case EventKind::kProfiled: return "PROFILE";
    case EventKind::kFinal:
    case EventKind::kReplicated:
    case EventKind::kReported: return phase_word(Phase::kReport);
    default: return phase_word(Phase::kTermination);
  }
}

bool is_shown(const Round& round) { return round.closed() && round.state() != RoundState::kNotMeasured; }

// "ACCEPTED" or "ROLLED BACK": a round that could not be told was undone as well.
ForeignRun::Entry entry_of(const Round& round) {
  ForeignRun::Entry entry;
  entry.round = round.number;
  entry.decision = round.state() == RoundState::kAccepted ? "ACCEPTED" : "ROLLED BACK";
  entry.description = round.last().proposal.hypothesis.title;
  entry.at = minute(round.closed_at);
  return entry;
}

void add_score(ForeignRun::Entry& entry, const State& state, const std::vector<record::RooflinePoint>& points) {
  if (const double step = step_geomean(step_score(points, {})); std::isfinite(step)) entry.score[kStepMetric] = step;
  const std::optional<record::Metric> own = project_metric(state.spec());
  if (!own || points.empty()) return;
  if (const double value = metric_value(*own, points); std::isfinite(value)) entry.score[own->name] = value;
}

std::vector<ForeignRun::Entry> history_of(const State& state) {
  std::vector<ForeignRun::Entry> history = {{.round = 1,
                                             .decision = "BASELINE",
                                             .score = {},
                                             .description = "the kernel to beat",
                                             .at = minute(state.baseline_at)}};
  add_score(history.back(), state, baseline_points(state));
  for (const Round& round : state.rounds) {
    if (!is_shown(round)) continue;
    history.push_back(entry_of(round));
    add_score(history.back(), state, points_of(state, round));
  }
  return history;
}

// The open round, or the last one that is shown: the viewer calls a round that it has no decision of pending.
std::int64_t current_round(const State& state, const std::vector<ForeignRun::Entry>& history) {
  const Round* open = state.open_round();
  return open != nullptr ? open->number : history.back().round;
}

ForeignRun run_of(const State& state) {
  const record::CampaignSpec& spec = state.spec();
  ForeignRun run;
  run.campaign = spec.id;
  run.directory = ".";
  run.phase =
      phase_word(next_transition(state).phase);  // of what is due also while it is paused: there is no such phase
  run.history = history_of(state);
  run.current_round = current_round(state, run.history);
  run.best_round = state.incumbent.round;
  for (const ForeignRun::Entry& entry : run.history) {
    if (entry.round == run.best_round) run.best_score = entry.score;
    run.rollback_streak = entry.decision == "ROLLED BACK" ? run.rollback_streak + 1 : 0;
  }
  run.started_at = minute(state.created_at);
  run.last_update = minute(state.updated_at);
  run.params = {{"target_op", spec.op},
                {"target_backend", spec.backend},
                {"backend", spec.backend},
                {"target_gpu", spec.gpu},
                {"gpu", spec.gpu},
                {"target_lang", spec.language},
                {"primary_metric", project_metric(spec) ? spec.primary_metric : kStepMetric}};
  return run;
}

// One row of benchmark.csv. Cells that are not known are empty: a verdict on what was not judged, the deviation of a
// single session.
std::string benchmark_row(const std::vector<std::string>& names, const std::vector<std::string>& cells,
                          const report::ShapeNames& shapes) {
  std::string row;
  for (const auto& [theirs, ours] : kColumns) {
    const auto column = static_cast<std::size_t>(std::ranges::find(names, ours) - names.begin());
    std::string value = column < cells.size() && cells[column] != "nan" ? cells[column] : "";
    if (ours == std::string_view("Check") && value != "PASS" && value != "FAIL") value.clear();
    if (std::string_view(ours).ends_with("_stddev") && value == "0") value.clear();
    if (ours == std::string_view("label")) value = shapes.shorten(value);
    row += (row.empty() ? "" : ",") + csv_cell(value);
  }
  return row + "\r\n";
}

std::string benchmark_of(const std::string& ours, const report::ShapeNames& shapes) {
  std::string csv;
  for (const auto& [theirs, column] : kColumns) csv += (csv.empty() ? "" : ",") + std::string(theirs);
  csv += "\r\n";
  std::size_t at = ours.find("\r\n") + 2;
  const std::vector<std::string> names = csv_cells(std::string_view(ours).substr(0, at - 2));
  for (std::size_t end; (end = ours.find("\r\n", at)) != std::string::npos; at = end + 2)
    csv += benchmark_row(names, csv_cells(std::string_view(ours).substr(at, end - at)), shapes);
  return csv;
}

// {label: "m=64 n=64 k=64", M: 64, N: 64, K: 64, case: "m=64 n=64 k=64 dtype=f32 ..."}, in one line.
YAML::Node shape_node(const record::Case& one, const std::vector<record::Case>& cases,
                      const report::ShapeNames& shapes) {
  YAML::Node node(YAML::NodeType::Map);
  node.SetStyle(YAML::EmitterStyle::Flow);
  node["label"] = shapes.shorten(one.label());
  for (const ShapeColumn& column : shape_columns(cases)) {
    if (const std::string value = one.get(column.param); !value.empty()) node[column.title] = value;
  }
  if (node["label"].as<std::string>() != one.label()) node["case"] = one.label();
  return node;
}

// Shapes as maps with the labels of the tables beside them.
std::string manifest_for_viewer(const State& state, const report::ShapeNames& shapes) {
  const record::CampaignSpec spec = manifest_of(state);
  YAML::Node root = YAML::Load(render_manifest(spec));
  YAML::Node targets(YAML::NodeType::Sequence), representative(YAML::NodeType::Sequence);
  for (const record::Case& one : spec.target_cases) {
    targets.push_back(shape_node(one, spec.target_cases, shapes));
    if (std::ranges::count(spec.representative_labels, one.label()) > 0)
      representative.push_back(shape_node(one, spec.target_cases, shapes));
  }
  root["target_shapes"] = targets;
  root["representative_shapes"] = representative;
  return YAML::Dump(root) + "\n";
}

// "rounds/round-3/": what is not shown has no folder either.
std::vector<std::string> hidden_folders(const State& state) {
  std::vector<std::string> folders;
  for (const Round& round : state.rounds) {
    if (!is_shown(round)) folders.push_back(fmt::format("rounds/round-{}/", round.number));
  }
  return folders;
}

}  // namespace

FileMap render_for_viewer(const State& state) {
  std::vector<std::string> labels;
  for (const record::Case& one : state.spec().target_cases) labels.push_back(one.label());
  const report::ShapeNames shapes(labels);
  const std::vector<std::string> hidden = hidden_folders(state);
  FileMap files = render_campaign(state);
  files.erase(kQuickScript);  // it runs the kernel in src/, which an export has not
  std::erase_if(files, [&](const auto& file) {
    return std::ranges::any_of(hidden, [&](const std::string& folder) { return file.first.starts_with(folder); });
  });
  for (auto& [path, content] : files) {
    // A project's own table under its own header stays as it is, beside the one that the viewer reads.
    const bool table = path.ends_with("benchmark.csv") && !path.ends_with("project_benchmark.csv");
    if (table) content = benchmark_of(content, shapes);
    const bool text = path.ends_with(".md") && path.find("/kernel_snapshot/") == std::string::npos;
    if (text) content = shapes.shorten(content);
  }
  files["manifest.yaml"] = manifest_for_viewer(state, shapes);
  files["logs/performance_trend.md"] = shapes.shorten(render_trend(state, Rate{}, TrendReader::kViewer));
  files["logs/cost.md"] = render_cost(state, phase_of_event);
  const ForeignRun run = run_of(state);
  files[fmt::format("state/{}/run.json", run.campaign)] = record::to_pretty(run) + "\n";
  return files;
}

}  // namespace ridge::campaign
