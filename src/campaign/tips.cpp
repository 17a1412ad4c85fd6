#include "campaign/tips.h"

#include "base/error.h"
#include "base/visible.h"

namespace ridge::campaign {
namespace {

constexpr std::size_t kHashDigits = 12;
constexpr std::size_t kProposerTextBytes =
    200;  // of a proposer, so that the measured factor behind them is not cut off

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
  tip.journal = state.first_hash.substr(0, kHashDigits);
  tip.round = round.number;
  tip.accepted = round.committed.has_value();
  tip.context = fmt::format("{} on {}, {} shapes, bottleneck {}", state.spec().op, state.spec().gpu,
                            state.spec().target_cases.size(), hypothesis.bottleneck);
  tip.signal = round.decision->reason;
  const std::string factor = fmt::format("{:.2f}x", gain(round));
  const bool measured = !round.decision->effects.empty();
  tip.takeaway = fmt::format("{} ({}): {}", short_line(hypothesis.title, kProposerTextBytes),
                             short_line(hypothesis.mechanism, kProposerTextBytes),
                             tip.accepted ? factor
                             : measured   ? "did not help, " + factor
                                          : std::string("did not help"));
  tip.applicability = fmt::format("{} kernels for {}, category {}, bucket {}", state.spec().language,
                                  state.spec().backend, hypothesis.category, hypothesis.bucket);
  return tip;
}

}  // namespace

std::vector<knowledge::NewTip> tips_of(const State& state) {
  std::vector<knowledge::NewTip> tips;
  for (const Round* round : state.known_before(state.next_round())) {
    if (!is_lesson(*round)) continue;
    knowledge::NewTip tip = knowledge::on_one_line(tip_of(state, *round));
    if (!tip.accepted || knowledge::hygiene_problem(tip.takeaway).empty()) tips.push_back(std::move(tip));
  }
  return tips;
}

}  // namespace ridge::campaign
