#include "campaign/replica.h"

#include "base/error.h"
#include "campaign/decide.h"
#include "campaign/machines.h"
#include "journal/replica.h"
#include "record/json.h"

namespace ridge::campaign {

bool replica_asked(const State& state) { return state.spec().extra.contains(kReplicateOnKey); }

bool replica_due(const State& state) {
  return state.final_measurement && !state.replicated && replica_asked(state) &&
         state.final_measurement->initial != state.final_measurement->best;
}

std::string replica_text(const State& state, const record::Final& measured, const record::Replicated& replicated) {
  if (replicated.effects.empty())
    return fmt::format("Not measured on another device ({}): {}", replicated.place, replicated.note);
  const std::string& backend = state.spec().backend;
  const Device there = device_of(replicated.environment, backend);
  const Kinship kind = kinship(device_of(state.prepared->environment, backend, replicated.own_host), there);
  const record::Effect& suite = replicated.effects.front();
  return fmt::format("On {}, {}: {:.3f}x ({:.3f}x to {:.3f}x over {} sessions); {}", kinship_words(kind),
                     device_text(there), suite.ratio, suite.low, suite.high, suite.sessions,
                     agreement_words(compare_effects(measured.effects, replicated.effects)));
}

std::string replica_text(const State& state, const record::Replicated& replicated) {
  return replica_text(state, *state.final_measurement, replicated);
}

std::string replica_objection(const State& state, const record::Replicated& stored) {
  const std::string place = machines_of(state.spec()).replicate;
  if (stored.place != place)
    return fmt::format("the final comparison was made again on {}, and the manifest says {}", stored.place,
                       place.empty() ? "nowhere" : place);
  const std::vector<record::Effect> again =
      final_effects(stored.evaluation, labels_of(state.spec().target_cases), guard_rule(state.spec().protocol));
  if (record::to_json(stored.effects) != record::to_json(again))
    return "the effects on another device are not what their samples give";
  if (stored.effects.empty()) return {};
  const record::Final& measured = *state.final_measurement;
  if (stored.evaluation.candidate != measured.best || stored.evaluation.incumbent != measured.initial)
    return "what was compared on another device is not the best against the baseline";
  const std::string& backend = state.spec().backend;
  const Device there = device_of(stored.environment, backend);
  const bool same = kinship(device_of(state.prepared->environment, backend, stored.own_host), there) == Kinship::kSame;
  return same ? fmt::format("the other device, {}, is the campaign's own", device_text(there)) : std::string();
}

}  // namespace ridge::campaign
