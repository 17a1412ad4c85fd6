#include "campaign/ledger.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "campaign/score.h"
#include "campaign/skew.h"
#include "campaign/state.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

const record::Hypothesis& hypothesis_of(const Round& round) { return round.last().proposal.hypothesis; }

const record::Effect* effect_of(const Round& round, const std::string& label) {
  if (!round.decision) return nullptr;
  const auto& effects = round.decision->effects;
  const auto found = std::find_if(effects.begin(), effects.end(), [&](const auto& e) { return e.label == label; });
  return found == effects.end() ? nullptr : &*found;
}

}  // namespace

bool gains_on_skew(const State& state, const Round& round) {
  if (!is_grouped(state.spec().op, state.spec().target_cases)) return true;
  for (const record::Case& one : state.spec().target_cases) {
    const record::Effect* effect = effect_of(round, one.label());
    if (load_of(one).skewed() && effect != nullptr && effect->low > 1.0) return true;
  }
  return false;
}

TransferDecision transfer_of(const State& state, const Round& round) {
  const record::Hypothesis& h = hypothesis_of(round);
  bool allowed = !h.cache || refuse_key(h.cache->key).empty();
  if (const auto& evaluated = round.last().evaluated; evaluated && evaluated->evaluation.training) {
    allowed = allowed && training_problem(*evaluated->evaluation.training, h.cache.has_value()).empty();
  }
  return transfer_decision(h.bucket, allowed, weight_bound_of(round).has_value(), gains_on_skew(state, round));
}

std::optional<double> weight_bound_of(const Round& round) {
  const auto& evaluated = round.last().evaluated;
  if (!evaluated || !evaluated->evaluation.incumbent_training) return std::nullopt;
  const auto& trace = evaluated->evaluation.incumbent_training;
  return weight_cache_bound(trace->weight, trace->step);
}

double structural_bound(const State& state, const Round& round) {
  std::vector<double> room;
  for (const record::RooflinePoint& bound : state.baseline->evaluation.roofline) {
    if (!round.last().evaluated) return INFINITY;
    const std::vector<double> values =
        launches(round.last().evaluated->evaluation.sessions, bound.label, Arm::kIncumbent);
    if (values.empty() || !(bound.bound_time > 0)) continue;
    room.push_back(stats::median(values) / bound.bound_time);
  }
  const double bound = stats::geomean(room);
  return std::isfinite(bound) ? bound : INFINITY;
}

Ledger ledger_of(const State& state, std::size_t rounds) {
  std::vector<LedgerRow> rows;
  for (std::size_t i = 0; i < std::min(rounds, state.rounds.size()); ++i) {
    const Round& round = state.rounds[i];
    const record::Effect* suite = effect_of(round, "suite");
    if (round.committed && suite != nullptr)
      rows.push_back({round.number, hypothesis_of(round).bucket, suite->ratio, weight_bound_of(round)});
  }
  return add_up(rows);
}

}  // namespace ridge::campaign
