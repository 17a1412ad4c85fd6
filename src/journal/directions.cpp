#include "journal/directions.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "record/tunables.h"

namespace ridge::journal {
namespace {

using record::RoundState;

bool measured(const Round& round) {
  const RoundState state = round.state();
  return state != RoundState::kNotMeasured && state != RoundState::kUnfinished;
}
bool settled(const Round& round) {
  return round.state() == RoundState::kAccepted || round.state() == RoundState::kRolledBack;
}

const record::Hypothesis& hypothesis_of(const Round& round) { return round.last().proposal.hypothesis; }

// Whether a later round settled the same mechanism.
bool taken_up(std::span<const Round> rounds, const Round& round) {
  return std::any_of(rounds.begin(), rounds.end(), [&](const Round& one) {
    return one.number > round.number && settled(one) && hypothesis_of(one).mechanism == hypothesis_of(round).mechanism;
  });
}

class List {
 public:
  void add(const std::string& direction, const std::string& rationale) {
    if (open.size() < kMostOpenDirections && seen_.insert(direction).second) open.push_back({direction, rationale});
  }
  std::vector<record::OpenDirection> open;

 private:
  std::set<std::string> seen_;
};

}  // namespace

std::vector<record::Direction> untried_tunables(const record::Candidate& incumbent,
                                                std::span<const Round* const> rounds) {
  const Result<record::TuneSpace> space = record::tune_space(incumbent);
  if (!space) return {};
  std::set<std::string> tried;
  for (const Round* round : rounds) {
    if (!measured(*round)) continue;
    for (const Attempt& attempt : round->attempts) {
      for (const record::Candidate& candidate : attempt.proposal.candidates) {
        for (const auto& [name, value] : candidate.defines) {
          const auto before = round->incumbent.defines.find(name);
          if (before == round->incumbent.defines.end() || before->second != value) tried.insert(name);
        }
      }
    }
  }
  std::vector<record::Direction> found;
  for (const record::Tunable& tunable : space->tunables) {
    if (tried.contains(tunable.name) || tunable.values.size() < 2) continue;
    found.push_back({tunable.title.empty() ? tunable.name : tunable.title, tunable.category,
                     tunable.effect.empty() ? "no round tried " + tunable.name : tunable.effect,
                     "suite ratio above the smallest effect"});
  }
  return found;
}

std::vector<record::OpenDirection> open_directions(const State& state) {
  return open_directions(state, state.rounds.size(), state.escalations.size());
}

std::vector<record::OpenDirection> open_directions(const State& state, std::size_t rounds, std::size_t escalations) {
  if (!state.baseline) return {};
  const std::span<const Round> known(state.rounds.data(), std::min(rounds, state.rounds.size()));
  List list;
  std::vector<const Round*> pointers;
  const record::Candidate* incumbent = &state.baseline->candidate;
  for (const Round& round : known) {
    pointers.push_back(&round);
    if (round.committed) incumbent = &round.last().evaluated->candidate;
    const bool open = round.closed() && !settled(round) && !taken_up(known, round);
    if (open) {
      list.add(hypothesis_of(round).title,
               fmt::format("{} in round {}: {}", record::name_of(round.state()), round.number, round.decision->reason));
    }
  }
  for (std::size_t i = std::min(escalations, state.escalations.size()); i-- > 0;) {
    const record::Escalated& review = state.escalations[i];
    if (review.directions.empty()) continue;
    for (const record::Direction& direction : review.directions) {
      const bool taken = std::any_of(known.begin(), known.end(), [&](const Round& one) {
        return one.number > review.after_round && measured(one) && hypothesis_of(one).category == direction.category;
      });
      if (!taken) list.add(direction.title, direction.hypothesis);
    }
    break;
  }
  for (const record::Direction& one : untried_tunables(*incumbent, pointers)) list.add(one.title, one.hypothesis);
  return std::move(list.open);
}

}  // namespace ridge::journal
