#include "campaign/escalate.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ridge::campaign {
namespace {

using record::Direction;

constexpr std::size_t kRecent = 3, kFewestDirections = 3, kFewestCategories = 2;

struct Idea {
  const char *category, *title, *hypothesis, *signal;
};
// What is generally worth a look, by category. Two of each, so that three directions come from two categories.
constexpr Idea kIdeas[] = {
    {"tile", "another tile shape", "the tile's reuse does not match the ratio of the shapes' extents",
     "fewer loads per multiply-add"},
    {"tile", "another launch geometry", "the last wave of tiles leaves units idle",
     "less time on shapes with a ragged end"},
    {"layout", "pack or swizzle an operand", "strided access touches more lines than it uses", "fewer cache misses"},
    {"layout", "move data in larger units", "narrow loads spend issue slots", "fewer load instructions"},
    {"pipeline", "load the next block while computing this one", "loads and arithmetic wait for each other",
     "less time between the bound and the latency"},
    {"pipeline", "more independent accumulators", "each sum waits for the one before it", "higher issue rate"},
    {"resource", "fewer live registers", "spills or low occupancy cost more than reuse saves",
     "no spill in the hot loop"},
    {"resource", "wider vectors or another unit", "the widest unit of the machine is not used", "wider instructions"},
    {"backend", "another instruction family", "the compiler does not emit the instruction that fits",
     "its count in the build"},
    {"backend", "compare with the fastest library", "a known implementation shows what is possible", "the gap to it"},
    {"algorithm", "another loop order", "the innermost loop reuses the wrong operand",
     "traffic nearer to the compulsory"},
    {"algorithm", "fuse what surrounds the kernel", "a pass over memory can be saved",
     "fewer bytes than the bound counts"},
};

// A round that says nothing about its candidate.
bool lost(const Round& round) {
  return round.state() == record::RoundState::kNotSettled || round.state() == record::RoundState::kNotMeasured;
}

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
    if (lost(**one)) continue;
    if ((*one)->committed) break;
    ++count;
  }
  return count;
}

const Round* last_refuted(const State& state, std::int64_t round) {
  const std::vector<const Round*> rounds = state.known_before(round);
  for (auto one = rounds.rbegin(); one != rounds.rend(); ++one) {
    if (lost(**one)) continue;
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

std::vector<Direction> review(const State& state, std::int64_t round) {
  const std::set<std::string> used = recent_categories(state, round);
  std::vector<Direction> directions;
  for (Direction& option : untried_tunables(state.incumbent.candidate, state.known_before(state.next_round()))) {
    if (!used.contains(option.category) && directions.size() < 6) directions.push_back(std::move(option));
  }
  for (const Idea& idea : kIdeas) {
    if (directions.size() >= kFewestDirections && category_count(directions) >= kFewestCategories) break;
    if (!used.contains(idea.category)) {
      directions.push_back({idea.title, idea.category, idea.hypothesis, idea.signal});
    }
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
