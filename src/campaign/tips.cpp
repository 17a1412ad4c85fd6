#include "campaign/tips.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::campaign {
namespace {

constexpr std::size_t kMostTips = 5, kMostFailures = 2;

bool is_lesson(const Round& round) {
  if (round.committed) return true;
  if (!round.rolled_back || round.state() != record::RoundState::kRolledBack) return false;
  const record::Outcome outcome = round.decision->outcome;
  return outcome == record::Outcome::kSlower || outcome == record::Outcome::kWrong;
}

double gain(const Round& round) {
  return round.decision->effects.empty() ? 1.0 : round.decision->effects.front().ratio;
}

knowledge::NewTip tip_of(const State& state, const Round& round) {
  const record::Hypothesis& hypothesis = round.last().proposal.hypothesis;
  knowledge::NewTip tip;
  tip.time = round.closed_at.substr(0, 10) + " " + round.closed_at.substr(11, 5);
  tip.campaign = state.spec().id;
  tip.round = round.number;
  tip.accepted = round.committed.has_value();
  tip.context = fmt::format("{} on {}, {} shapes, bottleneck {}", state.spec().op, state.spec().gpu,
                            state.spec().target_cases.size(), hypothesis.bottleneck);
  tip.signal = round.decision->reason;
  tip.takeaway = fmt::format("{} ({}): {}", hypothesis.title, hypothesis.mechanism,
                             tip.accepted ? fmt::format("{:.2f}x", gain(round)) : std::string("did not help"));
  tip.applicability = fmt::format("{} kernels for {}, category {}, bucket {}", state.spec().language,
                                  state.spec().backend, hypothesis.category, hypothesis.bucket);
  return tip;
}

}  // namespace

std::vector<knowledge::NewTip> tips_of(const State& state) {
  std::vector<const Round*> accepted, failed;
  for (const Round* round : state.known_before(state.next_round())) {
    if (is_lesson(*round)) (round->committed ? accepted : failed).push_back(round);
  }
  std::stable_sort(accepted.begin(), accepted.end(),
                   [](const Round* a, const Round* b) { return gain(*a) > gain(*b); });
  std::stable_sort(failed.begin(), failed.end(), [](const Round* a, const Round* b) { return gain(*a) < gain(*b); });
  const std::size_t failures = std::min(failed.size(), kMostFailures);
  const std::size_t gains = std::min(accepted.size(), kMostTips - failures);
  std::vector<knowledge::NewTip> tips;
  for (std::size_t i = 0; i < gains; ++i) tips.push_back(tip_of(state, *accepted[i]));
  for (std::size_t i = 0; i < failures; ++i) tips.push_back(tip_of(state, *failed[i]));
  return tips;
}

}  // namespace ridge::campaign
