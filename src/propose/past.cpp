#include "propose/past.h"

namespace ridge::propose {

bool Past::spent(const std::string& mechanism) const {
  const auto found = attempts.find(mechanism);
  return found != attempts.end() && !found->second.accepted;
}

bool Past::may_retune(const std::string& mechanism) const {
  const auto found = attempts.find(mechanism);
  return found != attempts.end() && found->second.accepted && last_accepted_round > found->second.round;
}

Past digest_history(const Space& space, const record::ProposalRequest& request) {
  Past past;
  past.seen.insert(space.complete(request.incumbent.defines));
  for (const record::RoundSummary& round : request.history) {
    if (round.candidate.sources == request.incumbent.sources) {
      past.seen.insert(space.complete(round.candidate.defines));
      for (const record::ScreenRow& row : round.sweep) past.seen.insert(space.complete(row.defines));
    }
    past.last = &round;
    if (round.outcome == record::Outcome::kHarnessFault) continue;
    if (round.hypothesis.mechanism.empty()) continue;  // the baseline
    past.attempts[round.hypothesis.mechanism] = {round.round, round.accepted, round.suite_ratio};
    if (round.accepted) past.last_accepted_round = round.round;
  }
  for (auto round = request.history.rbegin(); round != request.history.rend(); ++round) {
    if (round->accepted || round->hypothesis.mechanism.empty()) break;
    if (!settles(round->outcome)) continue;  // nothing was refuted
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
