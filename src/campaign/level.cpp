#include "campaign/level.h"

#include <algorithm>

#include "campaign/state.h"

namespace ridge::campaign {
namespace {

constexpr double kSmallGain = 1.05;

}  // namespace

std::vector<record::Case> cases_of_level(const State& state, const std::string& level) {
  if (level == "full") return state.spec().target_cases;
  std::vector<record::Case> cases;
  if (level != "quick" || !state.baseline) return cases;
  const std::vector<std::string>& chosen = state.baseline->representative_labels;
  for (const record::Case& one : state.spec().target_cases) {
    if (std::find(chosen.begin(), chosen.end(), one.label()) != chosen.end()) cases.push_back(one);
  }
  return cases;
}

std::vector<std::string> labels_of_level(const State& state, const std::string& level) {
  return labels_of(cases_of_level(state, level));
}

bool quick_pays(const State& state) {
  return state.baseline && !state.baseline->representative_labels.empty() &&
         state.baseline->representative_labels.size() < state.spec().target_cases.size();
}

std::string FullReasons::text() const {
  std::string reasons;
  const auto add = [&](bool holds, const char* reason) {
    if (holds) reasons += (reasons.empty() ? "" : ", ") + std::string(reason);
  };
  add(small_gain, "the gain is under 5 %");
  add(risky, "the source changed");
  add(end_of_direction, "the direction ends");
  add(final_acceptance, "it becomes the best");
  return reasons;
}

FullReasons full_reasons(const State&, const Round& round) {
  FullReasons reasons;
  const record::Candidate* candidate = round.last().candidate();
  const bool decided = round.decision && !round.decision->effects.empty();
  reasons.small_gain = !decided || round.decision->effects.front().ratio < kSmallGain;
  reasons.risky = candidate == nullptr || candidate->sources != round.incumbent.sources;
  reasons.end_of_direction = round.last().proposal.candidates.size() > 1;  // a sweep settles its direction
  reasons.final_acceptance = true;  // every accept replaces the best, which is what is handed back
  return reasons;
}

}  // namespace ridge::campaign
