// Shorthands of the files in this folder.
#pragma once

#include <algorithm>
#include <set>

#include "base/error.h"
#include "campaign/rules/rule.h"
#include "campaign/state.h"

namespace ridge::campaign::findings {

using record::Phase;
using record::RuleVerdict;

inline RuleFinding pass(std::string evidence) { return {RuleVerdict::kPass, std::move(evidence)}; }
inline RuleFinding fail(std::string evidence) { return {RuleVerdict::kFail, std::move(evidence)}; }
inline RuleFinding unknown(std::string evidence) { return {RuleVerdict::kUnknown, std::move(evidence)}; }
inline RuleFinding not_applicable(std::string why) { return {RuleVerdict::kNotApplicable, std::move(why)}; }
// A problem's text, or what to say when there is none.
inline RuleFinding unless(std::string problem, std::string good) {
  return problem.empty() ? pass(std::move(good)) : fail(std::move(problem));
}

inline const record::Hypothesis& hypothesis_of(const RuleContext& c) { return c.round->last().proposal.hypothesis; }
inline const record::Evaluation* evaluation_of(const RuleContext& c) {
  return c.round->last().evaluated ? &c.round->last().evaluated->evaluation : nullptr;
}
inline bool accepted(const Round& round) { return round.decision && round.decision->accepted; }
inline bool reached_baseline(const RuleContext& c) { return c.state.baseline.has_value(); }
inline std::set<std::string> as_set(const std::vector<std::string>& list) { return {list.begin(), list.end()}; }

}  // namespace ridge::campaign::findings
