// A decision as a pure function of stored samples and the frozen protocol; `ridge campaign replay` calls it again on
// the journal and compares. Beside it stands the plain rule that people know, with any disagreement, for information.
#pragma once

#include <span>
#include <string_view>

#include "campaign/gates.h"
#include "campaign/state.h"
#include "record/worker.h"

namespace ridge::campaign {

// From the open round of a state in which a decision is due.
record::Decision decide(const State& state);

// Of any evaluation against its incumbent, through all gates but those named in `without`.
record::Decision judge(const GateInput& input, std::span<const std::string_view> without = {});
// Whether only the rebuild is missing for an accept: every other gate passes.
bool needs_rebuild(const State& state, const record::Evaluated& evaluated);
// Whether the open round's quick look passed every gate but the one that asks for all shapes.
bool passes_quick_look(const State& state);

// What the gates see of the last attempt of a round.
GateInput gate_input(const State& state, const Round& round);

// Whether the sessions of an evaluation so far settle it: the screening session shows too little, or the sequential
// test has an answer. For executors that know no statistics.
bool sessions_settled(const record::WorkerRequest& request, const std::vector<record::Session>& sessions);

// Of the final measurement, best against baseline; empty when it failed.
std::vector<record::Effect> final_effects(const record::Evaluation& evaluation, const std::vector<std::string>& labels,
                                          const stats::GuardRule& guards);

// "aggregate up; no shape 5 % down; under 2 % needs three re-measurements with a mean above 1 % and a standard
// deviation below half of it", on the confirmation sessions.
struct PlainRule {
  bool accepts = false;
  std::string text;
};
PlainRule plain_rule(const RatioTable& table, const std::vector<std::string>& labels);

}  // namespace ridge::campaign
