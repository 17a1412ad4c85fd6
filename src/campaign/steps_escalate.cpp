// The step between a rollback and the next hypothesis: gather the evidence that rollbacks in a row ask for.
#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/escalate.h"
#include "campaign/level.h"
#include "campaign/session_size.h"
#include "campaign/state.h"
#include "campaign/termination.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

using record::Escalated;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

constexpr double kComparisonSeconds = 20.0;

// Evidence of an earlier escalation about the same build; measuring it again would say nothing new.
const Escalated* earlier(const State& state, const std::string& artifact, std::int64_t level) {
  for (auto one = state.escalations.rbegin(); one != state.escalations.rend(); ++one) {
    if (one->artifact == artifact && one->level >= level) return &*one;
  }
  return nullptr;
}

Error no_evidence(std::string_view what, const std::string& why) {
  return make_error(ErrorCode::kUnsupported, "{} is due after rollbacks in a row and failed: {}", what, why);
}

std::string point_text(const record::RooflinePoint& point) {
  return fmt::format("{}: {:.1f} % of its {} bound", point.label, 100 * point.fraction, point.bound);
}

}  // namespace

// Level 2: the incumbent measured afresh, and what limits each shape.
Status Engine::look_at_incumbent(Escalated& escalated) {
  WorkerRequest look = request(WorkerTask::kEvaluate);
  look.cases = quick_pays(state_) ? cases_of_level(state_, "quick") : look.cases;
  look.incumbent = state_.incumbent.candidate;
  look.candidates = {state_.incumbent.candidate};
  look.quick_look = true;
  look.sessions = 1;
  look.protocol.max_quads = 1;
  look.protocol.max_launches = 1;
  Result<WorkerResponse> response = work(look);
  if (!response && interrupted_) return response.error();
  if (!response || !response->evaluation) {
    return no_evidence("a fresh measurement", response ? "the worker sent no evaluation" : response.error().text());
  }
  double worst = 1.0;
  const std::size_t before = escalated.findings.size();
  for (const record::RooflinePoint& point :
       measured_roofline(state_.baseline->evaluation.roofline, response->evaluation->sessions)) {
    escalated.findings.push_back("measured again, " + point_text(point));
    worst = std::min(worst, point.fraction);
  }
  if (escalated.findings.size() == before)
    escalated.findings.emplace_back("the fresh measurement was void: the machine is busy");
  escalated.figures["worst_fraction"] = worst;
  return ok_status();
}

// Level 3: the incumbent's instructions beside the baseline's.
Status Engine::inspect_incumbent(Escalated& escalated) {
  WorkerRequest build = request(WorkerTask::kBuild);
  build.candidates = {state_.incumbent.candidate};
  Result<WorkerResponse> response = work(build);
  if (!response && interrupted_) return response.error();
  if (!response || response->builds.empty()) {
    return no_evidence("a look at the instructions", response ? "the worker built nothing" : response.error().text());
  }
  const auto& reference = state_.baseline->evaluation.build.counts;
  for (const auto& [name, value] : response->builds.front().counts) {
    const auto before = reference.find(name);
    escalated.figures[name] = value;
    escalated.findings.push_back(
        fmt::format("{} = {:g} in the build, {} in the baseline's", name, value,
                    before == reference.end() ? "unknown" : fmt::format("{:g}", before->second)));
  }
  if (response->builds.front().counts.empty()) escalated.findings.emplace_back("the build counts no instructions");
  return ok_status();
}

// Level 4: the best implementation known here, on the representative shapes.
Status Engine::compare_with_known(Escalated& escalated) {
  // A bench of several implementations in less time than a request gets would go on into the final measurement's.
  const double remaining = seconds_left(state_, termination_input());
  if (remaining < kShortestRequest) {
    escalated.findings.push_back(fmt::format("the best known implementation was not measured: {} left",
                                             format_duration(std::max(remaining, 0.0))));
    return ok_status();
  }
  WorkerRequest bench = request(WorkerTask::kBench);
  bench.cases = cases_of_level(state_, "quick");
  const double left = bench.time_limit > 0 ? bench.time_limit : kComparisonSeconds;
  bench.time_limit = std::min(left, kComparisonSeconds);
  Result<WorkerResponse> response = work(bench);
  if (!response && interrupted_) return response.error();
  if (!response) {
    escalated.findings.push_back("the best known implementation could not be measured: " + response.error().text());
    return ok_status();
  }
  for (const record::RooflinePoint& point : state_.incumbent.roofline) {
    const record::BenchRow* best = nullptr;
    for (const record::BenchRow& row : response->bench) {
      if (row.label != point.label || row.outcome != record::Outcome::kPass || !(row.median > 0)) continue;
      if (best == nullptr || row.median < best->median) best = &row;
    }
    if (best == nullptr) continue;
    escalated.figures["best_known " + point.label] = point.latency / best->median;
    escalated.findings.push_back(fmt::format("{}: {} takes {:.4g} ms, the incumbent {:.4g} ms", point.label,
                                             best->subject, 1e3 * best->median, 1e3 * point.latency));
  }
  if (response->bench.empty())
    escalated.findings.emplace_back("no other implementation of this operator is known here");
  return ok_status();
}

Status Engine::escalate() {
  const std::int64_t round = state_.next_round(), due = escalation_due(state_, round);
  const Round& refuted = *last_refuted(state_, round);
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/escalate-{}", refuted.number, due),
                        "gather the evidence that rollbacks in a row ask for"));
  Escalated escalated;
  escalated.after_round = refuted.number;
  escalated.level = due;
  escalated.artifact = state_.incumbent.build.artifact;
  escalated.findings = diagnose(refuted);
  using Step = Status (Engine::*)(Escalated&);
  const Step steps[] = {&Engine::look_at_incumbent, &Engine::inspect_incumbent, &Engine::compare_with_known};
  if (due >= 2) {
    // What is known about this build is passed on; only what is missing is measured.
    const Escalated* known = nullptr;
    std::int64_t have = 1;
    for (std::int64_t level = due; level >= 2 && known == nullptr; --level) {
      known = earlier(state_, escalated.artifact, level);
      if (known != nullptr) have = std::min(known->level, due);
    }
    if (known != nullptr) {
      escalated.figures = known->figures;
      for (const std::string& finding : known->findings) {
        if (!finding.starts_with("round ")) escalated.findings.push_back(finding);
      }
    }
    for (std::int64_t level = have + 1; level <= due; ++level) RIDGE_CHECK_OK((this->*steps[level - 2])(escalated));
  }
  // Its counters are what the next claim about a bottleneck is held against.
  if (profile_) {
    for (const record::ProfileMetric& one : profile_->metrics) escalated.figures[one.name] = one.median;
  }
  if (review_due(state_, round)) escalated.directions = review(state_, round, advised(pages_->entries.size()));
  return record(record::EventKind::kEscalated, record::to_json(escalated));
}

}  // namespace ridge::campaign
