#include "campaign/escalate.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ridge::campaign {
namespace {

using record::Direction;

constexpr std::size_t kRecent = 3, kFewestDirections = 3, kFewestCategories = 2, kMostTunables = 6;

std::set<std::string> recent_categories(const State& state, std::int64_t round) {
  std::set<std::string> categories;
  std::vector<const Round*> rounds = state.known_before(round);
  std::erase_if(rounds, [](const Round* one) { return one->state() == record::RoundState::kNotMeasured; });
  const std::size_t from = rounds.size() > kRecent ? rounds.size() - kRecent : 0;
  for (std::size_t i = from; i < rounds.size(); ++i) {
    categories.insert(rounds[i]->last().proposal.hypothesis.category);
  }
  return categories;
}

std::size_t category_count(const std::vector<Direction>& directions) {
  std::set<std::string> categories;
  for (const Direction& direction : directions) categories.insert(direction.category);
  return categories.size();
}

}  // namespace

std::int64_t rollbacks_before(const State& state, std::int64_t round) {
  std::int64_t count = 0;
  const std::vector<const Round*> rounds = state.known_before(round);
  for (auto one = rounds.rbegin(); one != rounds.rend(); ++one) {
    if ((*one)->without_verdict()) continue;
    if ((*one)->committed) break;
    ++count;
  }
  return count;
}

const Round* last_refuted(const State& state, std::int64_t round) {
  const std::vector<const Round*> rounds = state.known_before(round);
  for (auto one = rounds.rbegin(); one != rounds.rend(); ++one) {
    if ((*one)->without_verdict()) continue;
    return (*one)->committed ? nullptr : *one;
  }
  return nullptr;
}

std::int64_t escalation_due(const State& state, std::int64_t round) {
  return std::min(rollbacks_before(state, round), kMostEscalation);
}

const record::Escalated* escalation_of(const State& state, std::int64_t round) {
  const Round* refuted = last_refuted(state, round);
  if (refuted == nullptr) return nullptr;
  for (auto one = state.escalations.rbegin(); one != state.escalations.rend(); ++one) {
    if (one->after_round == refuted->number) return &*one;
  }
  return nullptr;
}

bool review_due(const State& state, std::int64_t round) {
  const std::int64_t rollbacks = rollbacks_before(state, round);
  if (rollbacks >= 2) return true;
  const std::vector<const Round*> rounds = state.known_before(round);
  if (rounds.size() < kRecent || rollbacks == 0) return false;
  const std::set<std::string> used = recent_categories(state, round);
  const bool no_gain = std::all_of(rounds.end() - static_cast<std::ptrdiff_t>(kRecent), rounds.end(),
                                   [](const Round* one) { return !one->committed; });
  return used.size() == 1 && no_gain;
}

std::vector<Direction> review(const State& state, std::int64_t round,
                              const std::vector<record::KnowledgeEntry>& entries) {
  const std::set<std::string> used = recent_categories(state, round);
  std::vector<Direction> directions;
  for (Direction& option : untried_tunables(state.incumbent.candidate, state.known_before(state.next_round()))) {
    if (!used.contains(option.category) && directions.size() < kMostTunables) directions.push_back(std::move(option));
  }
  for (const record::KnowledgeEntry& entry : entries) {
    const std::size_t categories = category_count(directions);
    if (directions.size() >= kFewestDirections && categories >= kFewestCategories) break;
    if (used.contains(entry.category) || !entry.tried.empty()) continue;
    directions.push_back({entry.title, entry.category, entry.mechanism, entry.signal});
    // Enough of one category: the next must be of another.
    if (directions.size() > kFewestDirections && category_count(directions) == categories) directions.pop_back();
  }
  return directions;
}

std::vector<std::string> diagnose(const Round& round) {
  const record::Hypothesis& hypothesis = round.last().proposal.hypothesis;
  const record::Decision& decision = *round.decision;
  std::vector<std::string> findings;
  findings.push_back(fmt::format("round {} expected {:+.1f} % from {} and was stopped: {}", round.number,
                                 100 * hypothesis.expected_gain, hypothesis.mechanism, decision.reason));
  for (const record::Effect& effect : decision.effects) {
    if (effect.label == "suite" || effect.ratio >= 1.0) continue;
    findings.push_back(fmt::format("{} became slower: {:.3f}x", effect.label, effect.ratio));
  }
  return findings;
}

}  // namespace ridge::campaign
