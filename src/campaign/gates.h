// Gates: each a small function from stored samples and the frozen protocol to a verdict with its values. A candidate is
// accepted only when every gate that applies passes; inconclusive is a verdict of its own and does not accept.
//
// A worker's word counts against a candidate ("it crashed"), never for it: what speaks for a candidate is recomputed
// from raw launches.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "campaign/project_table.h"
#include "campaign/state.h"
#include "record/campaign.h"
#include "record/measurement.h"
#include "stats/decide.h"

namespace ridge::campaign {

struct GateInput {
  record::Protocol protocol;
  record::Calibration calibration;            // the machine's, when the evaluation was made
  std::string level = "full";                 // only a full evaluation can be accepted
  std::vector<std::string> labels;            // of the level's cases: what must have been measured
  std::string candidate_id, incumbent_id;     // computed from the sources, not as claimed
  std::string incumbent_artifact;             // digest of the incumbent's built object
  bool rebuilds = false;                      // whether the campaign began with the gate "rebuild"
  std::string bucket;                         // transfer bucket of the hypothesis
  std::vector<record::RooflinePoint> bounds;  // as measured at BASELINE
  std::string disturbed;                      // what others used while the ceilings under them were measured
  NoiseLimits noise;                          // of a project, for the level's cases
  std::optional<record::Metric> metric;       // of a project
  std::vector<std::string> directions;        // of a project, for the level's cases: what the baseline's sessions hold
  std::int64_t decisions_used = 0;            // before this one
  record::Evaluation evaluation;
};

struct DecisionGate {
  const char* name;
  const char* question;  // what a person is told it asks
  record::GateResult (*check)(const GateInput& input);
};
inline constexpr const char* kLevelGate = "level";
inline constexpr const char* kRebuildGate = "rebuild";
// In the order they are shown; the first that does not pass names the reason.
std::span<const DecisionGate> gates();
// Campaigns that began before there was a gate go on, and replay, without it.
bool in_force(const DecisionGate& gate, const GateInput& input);

// The confirmation sessions of an evaluation in order, as the decision sees them.
Result<RatioTable> confirmation_ratios(const GateInput& input);

}  // namespace ridge::campaign
