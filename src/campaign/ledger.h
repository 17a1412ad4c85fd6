// Real-training attribution of a campaign's rounds, from its record.
#pragma once

#include "campaign/state.h"
#include "campaign/transfer.h"

namespace ridge::campaign {

// Derived from bucket, declared key and measured loads of a decided round.
TransferDecision transfer_of(const State& state, const Round& round);
// Whether a grouped operator gained on a skewed load; true for operators without groups.
bool gains_on_skew(const State& state, const Round& round);
// What a weight cache saves at most, as a fraction of a training step: measured on the round's incumbent by the
// project's training command. Nothing when there is none.
std::optional<double> weight_bound_of(const Round& round);
// Largest speed-up the round's change can structurally give: to the roofline bound, on every measured shape.
double structural_bound(const State& state, const Round& round);
// Of the accepted rounds up to and without index `rounds`.
Ledger ledger_of(const State& state, std::size_t rounds);

}  // namespace ridge::campaign
