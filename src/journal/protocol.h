// The statistical rules that a protocol describes, for the worker that stops measuring by them, the campaign that
// decides by them and the replay.
#pragma once

#include "record/campaign.h"
#include "record/measurement.h"
#include "stats/decide.h"
#include "stats/session.h"

namespace ridge::journal {

// The rule of the sequential test.
stats::SequentialRule sequential_rule(const record::Protocol& protocol);
// What the rule of decision makes of the guards of a session, on a machine of that calibration.
stats::GuardRule guard_rule(const record::Protocol& protocol, const record::Calibration& known = {});

}  // namespace ridge::journal
