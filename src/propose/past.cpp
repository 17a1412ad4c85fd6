#include "propose/past.h"

#include <algorithm>
#include <cmath>

#include "stats/summary.h"

namespace ridge::propose {

namespace {

bool measured(const record::RoundSummary& round) {
  return round.state != record::RoundState::kNotMeasured && round.state != record::RoundState::kUnfinished;
}

// What the candidate itself did wrong, whatever became of its round.
bool own_fault(record::Outcome outcome) { return record::settles(outcome) && outcome != record::Outcome::kPass; }

// Of the logarithm of the expected gain.
double share_that_came(const record::RoundSummary& round) {
  if (!round.accepted || !(round.suite_ratio > 1)) return 0;
  return std::min(1.0, std::log(round.suite_ratio) / std::log1p(round.hypothesis.expected_gain));
}

// The incumbent of each round by its time, from what is known of the last one back through the accepted ones.
std::vector<double> incumbent_times(const record::ProposalRequest& request, double now) {
  std::vector<double> times(request.history.size());
  for (std::size_t i = request.history.size(); i-- > 0;) {
    const record::RoundSummary& round = request.history[i];
    if (round.accepted && round.suite_ratio > 0) now *= round.suite_ratio;
    times[i] = now;
  }
  return times;
}

// What every round found of the incumbent's source, and the incumbent.
std::vector<Look> looks_of(const Space& space, const record::ProposalRequest& request, double now) {
  std::map<Config, std::size_t> place;
  std::vector<Look> looks;
  const auto add = [&](const Config& defines, std::optional<double> time) {
    const Config config = space.complete(defines);
    const auto [found, added] = place.try_emplace(config, looks.size());
    if (added) {
      looks.push_back({config, time});
    } else {
      looks[found->second].time = time;
    }
  };
  const std::vector<double> incumbents = incumbent_times(request, now);
  for (std::size_t i = 0; i < request.history.size(); ++i) {
    const record::RoundSummary& round = request.history[i];
    if (round.candidate.sources != request.incumbent.sources) continue;
    for (const record::ScreenRow& row : round.sweep) {
      if (row.score > 0) {
        add(row.defines, 1 / row.score);
      } else if (own_fault(row.outcome)) {
        add(row.defines, std::nullopt);
      }
    }
    if (!round.sweep.empty() || !measured(round)) continue;
    if (round.suite_ratio > 0 && now > 0) add(round.candidate.defines, incumbents[i] / round.suite_ratio);
  }
  if (now > 0) add(request.incumbent.defines, now);
  return looks;
}

}  // namespace

double Past::trust_in(const std::string& category) const {
  const auto found = promises.find(category);
  return found == promises.end() ? 1 : (1 + found->second.kept) / (1 + found->second.rounds);
}

double attained_fraction(const record::ProposalRequest& request) {
  std::vector<double> fractions;
  for (const record::RooflinePoint& point : request.roofline) {
    if (point.fraction > 0) fractions.push_back(point.fraction);
  }
  return fractions.empty() ? 0 : stats::geomean(fractions);
}

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
  const double attained = attained_fraction(request);
  past.time = attained > 0 ? 1 / attained : 0;
  past.looks = looks_of(space, request, past.time);
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
    if (round.hypothesis.expected_gain > 0 && round.state != record::RoundState::kNotSettled) {
      Past::Promises& promises = past.promises[round.hypothesis.category];
      promises.rounds += 1;
      promises.kept += share_that_came(round);
    }
    if (round.state == record::RoundState::kRolledBack) past.last_rollback = &round;
    if (round.accepted) past.last_accepted_round = round.round;
  }
  for (auto round = request.history.rbegin(); round != request.history.rend(); ++round) {
    if (round->accepted || round->hypothesis.mechanism.empty()) break;
    if (round->state != record::RoundState::kRolledBack) continue;  // nothing was refuted
    ++past.consecutive_rollbacks;
  }
  for (const record::Iteration& iteration : request.memory) {
    for (const record::IterationReference& one : iteration.references) {
      if (one.source_type == "candidate" && one.description == "refuted") past.refuted.insert(one.path_or_url);
    }
  }
  return past;
}

}  // namespace ridge::propose
