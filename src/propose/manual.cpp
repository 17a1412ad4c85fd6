#include "propose/manual.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "propose/answer.h"
#include "propose/proposers.h"
#include "stats/summary.h"

namespace ridge::propose {
namespace {

using record::Hypothesis;
using record::ProposalRequest;
using record::RooflinePoint;

constexpr double kBoundTolerance = 0.05;  // of a measured bound, as the gate "physics" grants it
constexpr const char* kName = "manual";

// The gain that brings the incumbent to its measured bounds; infinity where none is known.
double room(const ProposalRequest& request) {
  std::vector<double> fractions;
  for (const RooflinePoint& point : request.roofline) {
    if (!(point.fraction > 0)) return INFINITY;
    fractions.push_back(point.fraction);
  }
  return fractions.empty() ? INFINITY : 1 / ((1 - kBoundTolerance) * stats::geomean(fractions)) - 1;
}

Status check_expectation(const ProposalRequest& request, double gain) {
  const double least = request.spec.protocol.min_effect;
  if (!(gain >= least)) {
    return with_hint(
        invalid("an expected gain of {:.3g} %: this campaign accepts gains above {:.3g} %", 100 * gain, 100 * least),
        "say how much faster it should be, for instance --expect 8%, or do not propose it");
  }
  const double most = room(request);
  if (gain <= most) return ok_status();
  return with_hint(invalid("an expected gain of {:.4g} %: the best so far is at {:.3g} % of its measured bound, so no "
                           "kernel gains more than {:.3g} %",
                           100 * gain, 100 / ((1 + most) * (1 - kBoundTolerance)), 100 * most),
                   "state what the change itself should bring, for instance --expect 8%");
}

// "MR+NV", as the search calls the direction, so that it knows what was tried.
std::string mechanism_of(const ByHand& stated) {
  std::string names;
  for (const auto& [name, value] : stated.change.defines) names += (names.empty() ? "" : "+") + name;
  return stated.change.sources.empty() && !names.empty() ? names : stated.hypothesis.title;
}

std::string category_of(const ProposalRequest& request, const ByHand& stated) {
  for (const record::Tunable& tunable : request.space.tunables) {
    if (stated.change.sources.empty() && stated.change.defines.contains(tunable.name)) return tunable.category;
  }
  return "algorithm";
}

// What bounds the shape that is furthest from its bound.
std::string bottleneck_of_incumbent(const ProposalRequest& request) {
  const auto worst = std::ranges::min_element(request.roofline, {}, &RooflinePoint::fraction);
  return worst != request.roofline.end() && worst->bound == "memory" ? "memory" : "compute";
}

Hypothesis completed(const ProposalRequest& request, const ByHand& stated) {
  Hypothesis h = stated.hypothesis;
  if (h.mechanism.empty()) h.mechanism = mechanism_of(stated);
  if (h.category.empty()) h.category = category_of(request, stated);
  if (h.bottleneck.empty()) h.bottleneck = bottleneck_of_incumbent(request);
  if (h.risks.empty()) h.risks = {"none was named"};
  if (h.verification_signal.empty())
    h.verification_signal = fmt::format("suite ratio above {:.3f}", 1 + h.expected_gain / 2);
  if (h.evidence.empty()) h.evidence = {request.incumbent.id()};
  if (h.planned_files.empty()) {
    for (const record::SourceFile& file : stated.change.sources) h.planned_files.push_back(file.path);
  }
  for (const record::RoundSummary& round : request.history) {
    if (round.state == record::RoundState::kRolledBack && !stated.hypothesis.informed_by) h.informed_by = round.round;
  }
  return h;
}

class Manual final : public Proposer {
 public:
  explicit Manual(std::optional<ByHand> stated) : stated_(std::move(stated)), by_(stated_ ? stated_->by : "") {}

  [[nodiscard]] std::string name() const override { return by_.empty() ? kName : fmt::format("{}:{}", kName, by_); }
  [[nodiscard]] std::string waits_for() const override { return stated_ ? "" : "a round by hand"; }

  Result<record::Proposal> propose(const ProposalRequest& request) override {
    if (!stated_) return make_error(ErrorCode::kConflict, "no round by hand was proposed");
    const ByHand stated = *stated_;
    stated_.reset();
    return proposal_by_hand(request, stated);
  }

 private:
  std::optional<ByHand> stated_;
  std::string by_;
};

}  // namespace

Result<record::Proposal> proposal_by_hand(const ProposalRequest& request, const ByHand& stated) {
  record::AgentAnswer answer;
  answer.usage = stated.usage;
  if (!stated.give_up.empty()) {
    answer.exhausted = true;
    answer.reason = stated.give_up;
    return to_proposal(request, answer);
  }
  RIDGE_CHECK_OK(check_expectation(request, stated.hypothesis.expected_gain));
  answer.hypothesis = completed(request, stated);
  answer.changes = {stated.change};
  return to_proposal(request, answer);
}

std::unique_ptr<Proposer> make_by_hand(ByHand stated) { return std::make_unique<Manual>(std::move(stated)); }

Result<std::unique_ptr<Proposer>> make_manual(std::string_view, const ProposerOptions&) {
  return std::unique_ptr<Proposer>(std::make_unique<Manual>(std::nullopt));
}

}  // namespace ridge::propose
