#include "propose/past.h"

namespace ridge::propose {

namespace {

bool measured(const record::RoundSummary& round) {
  return round.state != record::RoundState::kNotMeasured && round.state != record::RoundState::kUnfinished;
}

// What the candidate itself did wrong, whatever became of its round.
bool own_fault(record::Outcome outcome) { return record::settles(outcome) && outcome != record::Outcome::kPass; }

}  // namespace

bool Past::spent(const std::string& mechanism) const {
  const auto found = attempts.find(mechanism);
  return found != attempts.end() && found->second.state != record::RoundState::kAccepted;
}

bool Past::may_retune(const std::string& mechanism) const {
  const auto found = attempts.find(mechanism);
  return found != attempts.end() && found->second.state == record::RoundState::kAccepted &&
         last_accepted_round > found->second.round;
}

Past digest_history(const Space& space, const record::ProposalRequest& request) {
  Past past;
  past.seen.insert(space.complete(request.incumbent.defines));
  for (const record::RoundSummary& round : request.history) {
    if (round.candidate.sources == request.incumbent.sources) {
      if (measured(round)) past.seen.insert(space.complete(round.candidate.defines));
      for (const record::ScreenRow& row : round.sweep) {
        if (measured(round) || own_fault(row.outcome)) past.seen.insert(space.complete(row.defines));
      }
    }
    if (!measured(round)) continue;                    // nothing was learned: its direction is as open as before
    if (round.hypothesis.mechanism.empty()) continue;  // the baseline
    past.attempts[round.hypothesis.mechanism] = {round.round, round.state, round.suite_ratio};
    if (round.state == record::RoundState::kRolledBack) past.last_rollback = &round;
    if (round.accepted) past.last_accepted_round = round.round;
  }
  for (auto round = request.history.rbegin(); round != request.history.rend(); ++round) {
    if (round->accepted || round->hypothesis.mechanism.empty()) break;
    if (round->state != record::RoundState::kRolledBack) continue;  // nothing was refuted
    ++past.consecutive_rollbacks;
    if (past.consecutive_rollbacks <= 3) past.recent_categories.insert(round->hypothesis.category);
  }
  for (const record::Iteration& iteration : request.memory) {
    for (const record::IterationReference& one : iteration.references) {
      if (one.source_type == "candidate" && one.description == "refuted") past.refuted.insert(one.path_or_url);
    }
  }
  return past;
}

}  // namespace ridge::propose
