// What is due next, as a table: the first row whose condition holds. A pure function of the State; the engine performs
// what is due, appends the event that records it, and asks again.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "campaign/state.h"

namespace ridge::campaign {

enum class Due {
  kCreate,
  kConfirm,
  kPrepare,
  kReadTips,
  kMeasureBaseline,
  kCommit,
  kRollBack,
  kCheckTermination,
  kCalibrate,
  kProfile,
  kEscalate,
  kPropose,
  kScreen,
  kEvaluate,
  kDecide,
  kMeasureFinal,
  kReplicate,
  kReport,
  kNothing
};

struct Transition {
  Due due;
  record::Phase phase;      // shown to people
  std::string_view action;  // "measure the baseline"
  std::string_view when;    // the condition, in words
  bool (*holds)(const State& state);
};

// In the order they are asked; the last one always holds.
std::span<const Transition> transitions();
const Transition& next_transition(const State& state);

// The table for people, as it stands in ARCHITECTURE.md.
std::string transitions_markdown();

// Whether the last attempt failed in a way that the proposer may repair within the round.
inline constexpr std::size_t kMaxAttempts = 4;  // the first and three repairs
bool repair_is_due(const Round& round);

// What a person is told: PAUSED, or the phase of what is due.
record::Phase phase_of(const State& state);

}  // namespace ridge::campaign
