#include "campaign/export_memory.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "campaign/iterations.h"
#include "campaign/lineage.h"
#include "record/json.h"
#include "report/shape_names.h"

namespace ridge::campaign {
namespace {

using record::ForeignIteration;
using record::RoundState;

bool is_version(const Round& round) { return round.closed() && round.state() != RoundState::kNotMeasured; }

// Utilisation in percent of the axis that bounds every shape; that layout has one figure for each axis.
ForeignIteration::Performance foreign_performance_of(const record::IterationPerformance& ours,
                                                     const std::vector<record::RooflinePoint>& points,
                                                     const report::ShapeNames& names) {
  ForeignIteration::Performance theirs;
  theirs.latency_us = ours.latency_us;
  for (const auto& [label, latency] : ours.latency_us_by_shape) theirs.by_shape[names.shorten(label)] = latency;
  theirs.tflops = ours.tflops;
  theirs.bandwidth_gbps = ours.bandwidth_gbps;
  const auto bound_by = [&](const char* axis) {
    return std::ranges::all_of(points, [&](const record::RooflinePoint& point) { return point.bound == axis; });
  };
  if (ours.compute_utilisation && bound_by("compute")) theirs.compute_percent = 100 * *ours.compute_utilisation;
  if (ours.memory_utilisation && bound_by("memory")) theirs.memory_percent = 100 * *ours.memory_utilisation;
  return theirs;
}

std::optional<double> difference(const std::optional<double>& now, const std::optional<double>& before) {
  return now && before ? std::optional(*now - *before) : std::nullopt;
}

// compute_bound | memory_bound: what the hypothesis says, and of what it calls otherwise where the roofline has most
// shapes.
std::string bottleneck_word(const std::string& said, const std::vector<record::RooflinePoint>& points) {
  if (said == "compute" || said == "memory") return said + "_bound";
  const auto memory = std::ranges::count(points, std::string("memory"), &record::RooflinePoint::bound);
  return 2 * memory > static_cast<std::ptrdiff_t>(points.size()) ? "memory_bound" : "compute_bound";
}

// Their five words; what has none of its own happened at run time.
std::string error_word(const std::string& ours) {
  constexpr std::string_view kWords[] = {"compilation", "runtime", "accuracy", "performance", "timeout"};
  return std::ranges::find(kWords, ours) != std::end(kWords) ? ours : "runtime";
}

std::string values_text(const std::map<std::string, std::int64_t>& defines) {
  std::string text;
  for (const auto& [name, value] : defines) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

ForeignIteration::Experience experience_of(const Round& round) {
  ForeignIteration::Experience experience;
  const record::Hypothesis& h = round.last().proposal.hypothesis;
  const auto add = [&](std::string name, std::string change, std::string result, bool kept) {
    const auto index = static_cast<std::int64_t>(experience.experiments.size()) + 1;
    experience.experiments.push_back({index, std::move(name), h.title, std::move(change), h.verification_signal,
                                      std::move(result), kept ? "continue" : "revert"});
  };
  const bool accepted = round.state() == RoundState::kAccepted;
  for (std::size_t i = 0; i < round.attempts.size(); ++i) {
    const Attempt& attempt = round.attempts[i];
    if (attempt.screened) {
      for (const record::ScreenRow& row : attempt.screened->rows)
        add("sweep", values_text(row.defines),
            row.outcome == record::Outcome::kPass ? fmt::format("{:.4f} of the bound", row.score)
                                                  : std::string(record::name_of(row.outcome)),
            row.candidate == attempt.screened->chosen);
    }
    if (!attempt.evaluated) continue;
    const record::Evaluation& evaluation = attempt.evaluated->evaluation;
    const bool last = i + 1 == round.attempts.size();
    add(fmt::format("attempt {}", i + 1), file_list(attempt.evaluated->candidate),
        last ? round.decision->reason : fmt::format("{}: {}", record::name_of(evaluation.outcome), evaluation.detail),
        last && accepted);
  }
  experience.count = experience.recorded = static_cast<std::int64_t>(experience.experiments.size());
  return experience;
}

// What an own record of the memory says, key by key.
ForeignIteration translated(const record::Iteration& ours, const std::vector<record::RooflinePoint>& points,
                            const report::ShapeNames& names) {
  ForeignIteration one;
  one.performance = foreign_performance_of(ours.performance, points, names);
  one.optimization = {ours.optimization.action_category, ours.optimization.action_description,
                      ours.optimization.expected_impact, ours.optimization.risks_and_rollback};
  one.profile_evidence = {"ridge",
                          names.shorten(ours.profile_evidence.evidence_summary),
                          names.shorten(ours.profile_evidence.evidence_chain),
                          {}};
  one.correctness.rel_err = ours.correctness.rel_err;
  for (const record::IsaMetricProgress& row : ours.isa_metric_progress)
    one.isa_metric_progress.push_back({row.metric, row.target, row.current, row.met});
  for (const record::PitfallAndFix& row : ours.pitfalls_and_fixes)
    one.pitfalls_and_fixes.push_back(
        {error_word(row.error_type), row.error_message, row.root_cause, row.fix_applied, row.lesson});
  for (const record::IterationReference& row : ours.references)
    one.references.push_back({"ref-project", row.path_or_url, fmt::format("{}: {}", row.source_type, row.description)});
  for (const record::OpenDirection& open : ours.open_directions)
    one.open_directions.push_back({names.shorten(open.direction), names.shorten(open.rationale)});
  return one;
}

// Their three words. A round whose sessions could not tell did not pass the gate, and says why.
void judge_version(ForeignIteration& one, const Round& round) {
  using record::Outcome;
  const Outcome outcome = round.decision->outcome;
  const bool hung = outcome == Outcome::kHang;
  const std::optional<record::Evaluated>& evaluated = round.last().evaluated;
  const bool right = evaluated && outcome != Outcome::kCheat && !evaluated->evaluation.checks.empty() &&
                     std::ranges::all_of(evaluated->evaluation.checks,
                                         [](const record::CheckRow& row) { return row.outcome == Outcome::kPass; });
  one.correctness.status = hung ? "TIMEOUT_FAIL" : right ? "PASS" : "FAIL";
  if (round.state() == RoundState::kAccepted) {
    one.quality_gate.result = "PASS";
    return;
  }
  one.quality_gate.result = hung ? "TIMEOUT_FAIL" : "FAIL";
  one.quality_gate.reason =
      round.state() == RoundState::kNotSettled ? "not settled: " + round.decision->reason : round.decision->reason;
}

std::string left_out(const State& state) {
  std::string text;
  for (const Round& round : state.rounds) {
    if (round.closed() && !is_version(round))
      text += fmt::format("- round {} was not measured and is no version: {}\n", round.number,
                          cell(round.decision->reason));
  }
  return text.empty() ? text : "\n" + text;
}

std::string readme_of(const State& state, const report::ShapeNames& names) {
  const record::CampaignSpec& spec = state.spec();
  std::string shapes;
  for (const record::Case& one : spec.target_cases) shapes += "- " + cell(names.shorten(one.label())) + "\n";
  if (!names.shared().empty()) shapes += "- of all: " + cell(names.shared()) + "\n";
  return fmt::format(
      "# {}\n\n## Target\n\n- platform: {}\n- kernel: {}\n- language: {}\n- backend: {}\n\n## Inputs\n\n{}\n"
      "## Stop Conditions\n\n- {:.0f} % of the measured ceiling\n\n## Task Context\n\nExported from the campaign {} by "
      "ridge; its journal holds the raw samples.\n{}",
      spec.id, spec.gpu, spec.op, spec.language, spec.backend, shapes, 100 * spec.efficiency_target, spec.id,
      left_out(state));
}

// The versions in their order, with what each was measured against.
class Versions {
 public:
  explicit Versions(const State& state, const report::ShapeNames& names) : state_(state), names_(names) {}

  std::vector<ExportedVersion> take() {
    add_baseline();
    for (const Round& round : state_.rounds) {
      if (is_version(round)) add(round);
    }
    return std::move(versions_);
  }

 private:
  void add_baseline() {
    const std::vector<record::RooflinePoint> points = baseline_points(state_);
    ForeignIteration one = translated(iteration_of_baseline(state_), points, names_);
    one.timestamp = state_.baseline_at;
    one.profile_evidence.bottleneck = bottleneck_word({}, points);
    one.correctness.status = one.quality_gate.result = "PASS";
    best_ = one.performance.latency_us;
    keep(1, std::move(one), {tree_of(state_.baseline->candidate), {}, "the kernel to beat"});
  }

  // Readers of that layout take the least latency of any correct version as the best one. A version that was not
  // accepted therefore has none where its bare number is below those that were; its shapes keep theirs.
  void add(const Round& round) {
    const std::vector<record::RooflinePoint> points = points_of(state_, round);
    ForeignIteration one = translated(iteration_of(state_, round), points, names_);
    one.timestamp = round.closed_at;
    one.optimization.description = names_.shorten(round.last().proposal.hypothesis.title);
    one.profile_evidence.bottleneck =
        bottleneck_word(round.last().proposal.hypothesis.bottleneck, baseline_points(state_));
    one.experience = experience_of(round);
    judge_version(one, round);
    const bool accepted = round.state() == RoundState::kAccepted;
    std::optional<double>& latency = one.performance.latency_us;
    compare(one.performance, round.incumbent_round);
    if (accepted && latency) best_ = std::min(best_.value_or(*latency), *latency);
    if (!accepted && latency && best_ && *latency < *best_) latency.reset();
    keep(round.number, std::move(one),
         {accepted ? tree_of(round.last().evaluated->candidate) : FileMap(), names_.shorten(plan_of(round)),
          round.last().proposal.hypothesis.title});
  }

  void compare(ForeignIteration::Performance& now, std::int64_t against) const {
    const auto found = performances_.find(against);
    if (found == performances_.end()) return;
    const ForeignIteration::Performance& before = found->second;
    now.versus_previous = {difference(now.latency_us, before.latency_us), difference(now.tflops, before.tflops),
                           difference(now.bandwidth_gbps, before.bandwidth_gbps)};
  }

  struct Parts {
    FileMap kernel;
    std::string plan, subject;
  };
  void keep(std::int64_t round, ForeignIteration one, Parts parts) {
    one.version = fmt::format("v{}", versions_.size());
    performances_[round] = one.performance;
    std::string subject = fmt::format("{}: {}", one.version, names_.shorten(parts.subject));
    versions_.push_back({std::move(one), std::move(parts.kernel), std::move(parts.plan), std::move(subject)});
  }

  const State& state_;
  const report::ShapeNames& names_;
  std::vector<ExportedVersion> versions_;
  std::map<std::int64_t, ForeignIteration::Performance> performances_;  // by round
  std::optional<double> best_;                                          // latency of what was accepted
};

}  // namespace

std::string plan_of(const Round& round) {
  const record::Hypothesis& h = round.last().proposal.hypothesis;
  std::string evidence, risks;
  for (const std::string& id : h.evidence) evidence += "- " + cell(id) + "\n";
  for (const std::string& risk : h.risks) risks += "- " + cell(risk) + "\n";
  return fmt::format(
      "## Input Evidence\n\n{}\n{}\n## Search Log\n\n| Source | Query | Finding | Actionability "
      "|\n|---|---|---|---|\n\n"
      "## This Iteration's Optimization Action\n\n{}\n\n## Expected Impact\n\n{:+.1f} %: {}\n\n"
      "## Risks and Rollback\n\n{}- rollback: the last accepted version\n",
      h.reasoning, evidence, h.title, 100 * h.expected_gain, h.verification_signal, risks);
}

ExportedWorkspace render_workspace(const State& state) {
  std::vector<std::string> labels;
  for (const record::Case& one : state.spec().target_cases) labels.push_back(one.label());
  const report::ShapeNames names(labels);
  ExportedWorkspace workspace;
  workspace.versions = Versions(state, names).take();
  workspace.files["README.md"] = readme_of(state, names);
  for (const auto& [path, content] : tree_of(state.incumbent.candidate)) workspace.files[path] = content;
  for (const ExportedVersion& version : workspace.versions) {
    const std::string& name = version.iteration.version;
    workspace.files[fmt::format("memory/{}.json", name)] = record::to_pretty(version.iteration) + "\n";
    if (!version.plan.empty()) workspace.files[fmt::format("plans/{}_plan.md", name)] = version.plan;
  }
  return workspace;
}

}  // namespace ridge::campaign
