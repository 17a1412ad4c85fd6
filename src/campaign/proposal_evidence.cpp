#include "campaign/proposal_evidence.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "campaign/escalate.h"
#include "campaign/state.h"

namespace ridge::campaign {
namespace {

constexpr std::string_view kParts[] = {"baseline", "build",     "ceilings", "directions", "environment", "findings",
                                       "history",  "knowledge", "roofline", "space",      "tips"};

const record::Evaluation* evaluation_of_round(const State& state, std::int64_t round) {
  if (round == 1) return state.baseline ? &state.baseline->evaluation : nullptr;
  for (const Round& one : state.rounds) {
    if (one.number == round && one.last().evaluated) return &one.last().evaluated->evaluation;
  }
  return nullptr;
}

std::set<std::string> known_ids(const ProposalView& view) {
  std::set<std::string> ids(std::begin(kParts), std::end(kParts));
  ids.insert(view.incumbent.id());
  ids.insert(view.state.baseline->candidate.id());
  ids.insert(view.state.baseline->evaluation.build.artifact);
  ids.insert(view.state.incumbent.build.artifact);
  ids.insert("round-1");
  if (view.state.tips) ids.insert(view.state.tips->knowledge.begin(), view.state.tips->knowledge.end());
  for (const Round* round : view.state.known_before(view.round)) {
    ids.insert(fmt::format("round-{}", round->number));
    for (const Attempt& attempt : round->attempts) {
      if (!attempt.evaluated) continue;
      ids.insert(attempt.evaluated->evaluation.candidate);
      ids.insert(attempt.evaluated->evaluation.build.artifact);
    }
  }
  return ids;
}

// A class holds only while none of its counters, if they were read, says otherwise.
struct Predicate {
  std::string_view bottleneck, counter;
  bool at_least;
  double threshold;
};
constexpr Predicate kPredicates[] = {
    {"launch", "gpu_busy_fraction", false, 0.6}, {"compute", "tensor_fraction", true, 0.3},
    {"memory", "dram_fraction", true, 0.3},      {"resource", "occupancy_fraction", false, 0.5},
    {"compute", "gpu_busy_fraction", true, 0.3}, {"memory", "gpu_busy_fraction", true, 0.3},
};

// Without a profile: what the distance from the roofline leaves room for.
std::string against_roofline(const std::string& bottleneck, const Standing& standing) {
  double worst = 1, shortest = INFINITY;  // of the shapes: one with room is enough
  bool compute_bound = false;
  for (const record::RooflinePoint& point : standing.roofline) {
    worst = std::min(worst, point.fraction);
    shortest = std::min(shortest, point.latency);
    compute_bound = compute_bound || point.bound != "memory";
  }
  const auto counter = standing.counters.find("stack_spill");
  const bool spills = counter != standing.counters.end() && counter->second > 0;
  constexpr double kNearBound = 0.95, kShortLaunch = 1e-3;
  if (bottleneck == "compute" && !compute_bound && worst > kNearBound) {
    return fmt::format("every shape is bound by memory and reaches {:.0f} % of that bound", 100 * worst);
  }
  if (bottleneck == "memory" && compute_bound && worst > kNearBound) {
    return fmt::format("every shape reaches {:.0f} % of its bound: memory cannot be what limits", 100 * worst);
  }
  if (bottleneck == "latency" && worst > kNearBound) {
    return fmt::format("{:.0f} % of the bound is reached: there is no waiting to remove", 100 * worst);
  }
  if (bottleneck == "resource" && !spills && worst > kNearBound) return "no spill, and the bound is nearly reached";
  if (bottleneck == "launch" && shortest > kShortLaunch) {
    return fmt::format("the shortest shape takes {:.2g} s: starting it is no part of that", shortest);
  }
  return {};
}

}  // namespace

std::string unknown_evidence(const ProposalView& view) {
  const std::set<std::string> known = known_ids(view);
  for (const std::string& id : view.proposal.hypothesis.evidence) {
    if (!known.contains(id)) return fmt::format("evidence \"{}\" is no record of this campaign", id.substr(0, 80));
  }
  return {};
}

Standing standing_of(const ProposalView& view) {
  Standing standing;
  const record::Evaluation* evaluation = evaluation_of_round(view.state, view.incumbent_round);
  if (evaluation == nullptr || !view.state.baseline) return standing;
  standing.roofline = measured_roofline(view.state.baseline->evaluation.roofline, evaluation->sessions);
  standing.counters = evaluation->build.counts;
  if (const record::Escalated* fresh = escalation_of(view.state, view.round)) {
    for (const auto& [name, value] : fresh->figures) standing.counters[name] = value;
  }
  return standing;
}

std::string bottleneck_without_evidence(const ProposalView& view) {
  const Standing standing = standing_of(view);
  if (standing.roofline.empty() && standing.counters.empty()) return "there is no measurement that could tell";
  const std::string& claimed = view.proposal.hypothesis.bottleneck;
  bool profiled = false;
  for (const Predicate& one : kPredicates) {
    const auto found = standing.counters.find(std::string(one.counter));
    if (one.bottleneck != claimed || found == standing.counters.end()) continue;
    profiled = true;
    const bool holds = one.at_least ? found->second >= one.threshold : found->second <= one.threshold;
    if (!holds) {
      return fmt::format("{} = {:.3g} contradicts \"{}\", which needs {} {:.2g}", one.counter, found->second, claimed,
                         one.at_least ? "at least" : "at most", one.threshold);
    }
  }
  return profiled ? std::string() : against_roofline(claimed, standing);
}

}  // namespace ridge::campaign
