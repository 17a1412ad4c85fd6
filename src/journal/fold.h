// State of a campaign: what its events add up to. fold() is pure; resuming a campaign is folding its journal.
//
// The only reading of a journal's events: the engine goes on from this state, and the report is drawn from it.
//
// Invariants that fold() enforces, so that a journal whose chain is intact but whose story is impossible is refused:
// rounds are contiguous and closed one after the other; a round has exactly one decision; only an accepted round is
// committed, and the chain of accepted rounds is linear.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "record/journal.h"

namespace ridge::journal {

// One answer of the proposer that was let through, and what became of it. A round has more than one attempt when a
// candidate did not build or was wrong and the proposer repaired it.
struct Attempt {
  record::Proposal proposal;
  std::optional<record::Screened> screened;
  std::optional<record::Evaluated> evaluated;  // the last level that was measured
  std::optional<record::Evaluated> quick;      // the quick look that came before a full evaluation
  double seconds = 0;                          // that the proposer took
  std::string proposer;                        // who that was

  // What is, or is to be, evaluated: the only candidate, or the one chosen from the sweep; null when none was usable.
  [[nodiscard]] const record::Candidate* candidate() const;
};

struct Round {
  std::int64_t number = 0;
  std::vector<Attempt> attempts;          // never empty
  std::vector<record::Proposed> refused;  // answers in this round that opened no attempt
  record::Candidate incumbent;            // the candidate to beat
  std::int64_t incumbent_round = 1;
  std::optional<record::Decision> decision;
  std::optional<record::Committed> committed;
  std::optional<record::RolledBack> rolled_back;
  std::string opened, decided, closed_at;       // event times
  double opened_active = 0, closed_active = 0;  // seconds of active campaign time
  bool refused_retry = false;                   // the repair asked for was refused: no further attempt
  std::set<std::int64_t> hidden;                // rounds that were masked when this one was opened

  [[nodiscard]] bool closed() const { return committed.has_value() || rolled_back.has_value(); }
  [[nodiscard]] record::RoundState state() const;
  [[nodiscard]] bool without_verdict() const;  // closed, and nothing is known of its candidate
  [[nodiscard]] const Attempt& last() const { return attempts.back(); }
};

// The last accepted candidate.
struct Incumbent {
  record::Candidate candidate;
  std::int64_t round = 1;
  record::BuildEvidence build;
  std::vector<record::RooflinePoint> roofline;  // latencies recomputed from raw samples
  std::string snapshot, commit;
};

// Where active time went, one row per recorded effect.
struct CostRow {
  std::string time;  // when it ended
  record::EventKind kind;
  std::int64_t round = 0;  // 0: outside of rounds
  double seconds = 0;      // of active time since the event before
  double total = 0;
  std::optional<record::Usage> usage;  // of an answer that was asked for, what its proposer says that it took
};

// What happened outside of the rounds and was no effect of its own: a pause, a resumption, a change of budget, a
// waiver, a mask, the end of a proposer's ideas.
struct Occurrence {
  std::string time;
  record::EventKind kind;
  std::variant<record::Note, record::BudgetChange, record::Waived, record::Masked, record::Calibrated> what;
};

// How a campaign ended, before more budget reopened it.
struct Ending {
  std::string time;
  record::Termination termination;
  record::Final final_measurement;
  std::size_t rounds = 0, escalations = 0;  // closed and gathered by then
  std::optional<record::Replicated> replicated = {};
};

struct State {
  std::int64_t events = 0;
  std::string first_hash, last_hash, created_at, updated_at;
  double active = 0;

  std::optional<record::Created> created;
  std::optional<record::Confirmed> confirmed;
  std::optional<record::Prepared> prepared;
  std::optional<record::TipsRead> tips;
  std::optional<record::Baseline> baseline;
  std::optional<record::Committed> baseline_committed;
  std::string baseline_at;  // event time
  double baseline_active = 0;
  std::vector<Round> rounds;                       // from round 2 on
  std::vector<record::Proposed> refused;           // answers refused since the last round was opened
  std::int64_t failures_in_a_row = 0;              // refused answers since the last good one or resumption
  std::int64_t unmeasured_in_a_row = 0;            // rounds that were not measured, since the last other or resumption
  std::optional<std::string> exhausted;            // the proposer's reason for having nothing left
  std::optional<record::Termination> termination;  // the last check
  bool checked = false;                            // termination was checked since the last round was closed
  std::optional<record::Final> final_measurement;
  std::optional<record::Replicated> replicated;  // the same on another device
  std::optional<record::Reported> reported;
  std::optional<std::string> paused;           // why, until resumed
  std::set<std::string> intents;               // keys of effects begun and not yet recorded as done
  double wall_budget = 0;                      // as extended
  std::optional<std::int64_t> max_iterations;  // as extended

  std::map<std::int64_t, record::Waived> waivers;  // by rule
  std::vector<record::Escalated> escalations;      // oldest first
  std::vector<record::Profiled> profiles;          // the same
  record::Masked masked;                           // rounds and records hidden from the proposer

  std::string ended_at;         // event time of the final measurement
  std::vector<Ending> endings;  // earlier ones; the current one is not among them
  std::vector<CostRow> costs;
  std::optional<record::Usage> usage;  // of an answer whose row of costs is not there yet
  double proposing = 0;                // seconds that proposers took, for answers that were refused too
  std::vector<Occurrence> occurrences;

  Incumbent incumbent;
  std::int64_t decisions_used = 0;  // decisions that looked at confirmation data; alpha is shared among them
  double product_of_accepted = 1;   // of the accepted rounds' suite ratios

  // The last fair calibration (samples.h) or the baseline's, how many decisions it followed, and one launch of
  // every shape of what it measured.
  record::Calibration calibration;
  std::int64_t calibrated_decisions = 0;
  double calibrated_launch = 0;

  [[nodiscard]] const record::CampaignSpec& spec() const { return created->spec; }
  // The round in progress, or null.
  [[nodiscard]] const Round* open_round() const;
  [[nodiscard]] std::int64_t next_round() const { return static_cast<std::int64_t>(rounds.size()) + 2; }
  [[nodiscard]] bool terminated() const { return termination && termination->condition != kNotYet; }
  [[nodiscard]] std::int64_t rounds_closed() const;
  // The closed rounds that a proposer of `round` may know of: those before it that were not masked when it was opened.
  [[nodiscard]] std::vector<const Round*> known_before(std::int64_t round) const;
  static constexpr const char* kNotYet = "none";
};

// Adds one event. An error (kCorrupt) names the event and why it cannot follow.
Status apply(State& state, const record::Event& event);
Result<State> fold(std::span<const record::Event> events);

// Digest of the built object that a round had to beat.
std::string incumbent_artifact(const State& state, const Round& round);

// What one closed round came to, and all that are not masked, oldest first.
record::RoundSummary summarise(const Round& round);
std::vector<record::RoundSummary> history(const State& state);

}  // namespace ridge::journal
