// Calibration of the machine by A/A sessions, the pure part: what they say, when they are due again, and what a person
// is told when a campaign cannot rest on them.
#pragma once

#include <string>
#include <vector>

#include "campaign/state.h"

namespace ridge::campaign {

// From the raw sessions of role "calibrate"; void ones do not count. Errors: a session without exactly these labels.
Result<record::Calibration> calibration_of(const std::vector<record::Session>& sessions,
                                           const std::vector<std::string>& labels, const record::Protocol& protocol);

// Why a campaign cannot rest on these sessions, with what would help; empty: it can.
std::string calibration_problem(const record::Calibration& calibration, const std::vector<record::Session>& sessions);

// What would make a machine measure better, from the guards of its sessions and the facts of its environment; may be
// empty.
std::vector<std::string> what_would_help(const std::vector<record::Session>& sessions,
                                         const record::Environment& environment);

// Whether the newest one, of the baseline or since, showed no arm favoured; the state keeps the last that was fair.
bool last_calibration_was_fair(const State& state);

// After every `calibrate_every` decisions, and when the incumbent is at least twice as fast as what was calibrated:
// short launches are noisier.
bool calibration_due(const State& state);

}  // namespace ridge::campaign
