#include "stats/confirm.h"

#include <algorithm>
#include <cmath>

namespace ridge::stats {

Confirmation::Confirmation(const ConfirmationRule& rule, std::span<const std::string> labels)
    : rule_(rule), suite_(rule.suite) {
  for (const std::string& label : labels) shapes_.push_back({label, {}, false, {}});
}

void Confirmation::add(const SessionStatistic& session) {
  if (stopped_) return;
  ++sessions_;
  const Verdict verdict = suite_.add(session.suite, session.slack);
  for (std::size_t i = 0; i < shapes_.size() && i < session.per_shape.size(); ++i) {
    shapes_[i].log_ratios.push_back(session.per_shape[i]);
    shapes_[i].slacks.push_back(session.slack);
  }
  if (verdict == Verdict::kReject) stopped_ = true;
  if (verdict != Verdict::kAccept) return;
  noninferiority_ = test_noninferiority(shapes_, rule_.margin, rule_.level);
  stopped_ = sessions_ >= rule_.suite.max_sessions || shapes_settled();
}

// All shown not to be worse, or one shown to be worse, or one that straight wins to the end would not save.
bool Confirmation::shapes_settled() const {
  if (noninferiority_.passed) return true;
  const int left = rule_.suite.max_sessions - sessions_;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const ShapeVerdict verdict = noninferiority_.shapes[i].verdict;
    if (verdict == ShapeVerdict::kWorse) return true;
    if (verdict == ShapeVerdict::kNotWorse) continue;
    SignBetting betting;
    for (std::size_t k = 0; k < shapes_[i].log_ratios.size(); ++k) {
      betting.add(shapes_[i].log_ratios[k] > shapes_[i].slacks[k] - std::log1p(rule_.margin));
    }
    if (betting.evidence_after_wins(left) < 1 / rule_.level) return true;
  }
  return false;
}

std::string Confirmation::reason() const {
  const SequentialResult suite = suite_.result();
  return suite.verdict == Verdict::kAccept ? suite.reason + "; " + noninferiority_.reason : suite.reason;
}

}  // namespace ridge::stats
