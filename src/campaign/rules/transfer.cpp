// Rules 52-61: will training see the gain?
#include <cmath>

#include "campaign/ledger.h"
#include "campaign/rules/findings.h"
#include "campaign/scan.h"
#include "campaign/score.h"
#include "campaign/skew.h"
#include "campaign/transfer.h"
#include "execute/project_executor.h"
#include "knowledge/tips.h"
#include "record/execution.h"

namespace ridge::campaign {
namespace {

using namespace findings;

constexpr double kBoundTolerance = 1.05;  // the bound is itself a measurement

const std::optional<record::CacheClaim>& cache_of(const RuleContext& c) { return hypothesis_of(c).cache; }
RuleFinding no_cache() { return not_applicable("no cache is declared"); }

RuleFinding bucket_matches(const RuleContext& c) {
  const record::Candidate* candidate = c.round->last().candidate();
  if (candidate == nullptr) return not_applicable("nothing was chosen");
  const std::vector<ScanFinding> found = find_identity_memory(c.round->incumbent, *candidate);
  const std::string& bucket = hypothesis_of(c).bucket;
  if (!found.empty() && bucket != "W1") return fail(fmt::format("declared {}, and {}", bucket, found.front().text()));
  return pass(bucket + ", and the added lines agree");
}

RuleFinding key_is_stable(const RuleContext& c) {
  if (!cache_of(c)) return no_cache();
  return unless(refuse_key(cache_of(c)->key), "every part of the key is stable: weight, version, layout");
}

RuleFinding four_step_trace(const RuleContext& c) {
  if (!cache_of(c)) return no_cache();
  const KeyTrace trace = trace_key(cache_of(c)->key, kTraceSteps);
  const std::string text = fmt::format("{} hits in {} look-ups over {} steps", trace.hits, trace.lookups, trace.steps);
  return unless(trace.hit_rate() < kLeastHitRate ? text : std::string(), text);
}

// A project's harness says itself which of its runs use fresh tensors; the engine timed both kinds on both arms.
RuleFinding fresh_as_reused(const record::Evaluation& e) {
  const auto now = e.build.counts.find("fresh_over_reused"),
             before = e.build.counts.find("incumbent_fresh_over_reused");
  if (now == e.build.counts.end() || before == e.build.counts.end())
    return unknown("fresh and reused tensors were not compared");
  const double gap = now->second / before->second;
  const std::string text =
      fmt::format("fresh tensors take {:.3f}x of reused ones, the incumbent's {:.3f}x", now->second, before->second);
  return unless(!(gap <= execute::kFreshTolerance) ? text +
                                                         ": the gain needs tensors that were seen before, or the "
                                                         "benchmark leaves its two kinds of tensor in different caches"
                                                   : std::string(),
                text);
}

RuleFinding fresh_inputs(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  if (e == nullptr || e->sessions.empty()) return not_applicable("nothing was timed");
  if (cache_of(c)) {
    const KeyTrace trace = trace_key(cache_of(c)->key, kSimulationSteps);
    if (trace.tensor_hits > 0) return fail("a key without the weight hits");
    if (trace.weight_hits < kSimulationSteps)
      return fail(fmt::format("{} hits in {} steps", trace.weight_hits, trace.steps));
  }
  if (e->outcome != record::Outcome::kPass && !accepted(*c.round)) return not_applicable("it did not get that far");
  if (e->training) {
    const std::string problem = training_problem(*e->training, cache_of(c).has_value());
    if (!problem.empty()) return fail(problem);
  }
  if (record::is_of_project(c.state.spec())) return fresh_as_reused(*e);
  for (const record::CheckRow& row : e->checks) {
    const auto timed = static_cast<std::int64_t>(launches(e->sessions, row.label, Arm::kCandidate).size());
    if (row.verified_calls < timed) {
      return fail(fmt::format("{}: {} launches timed, {} of them on an input of their own", row.label, timed,
                              row.verified_calls));
    }
  }
  return pass("every timed launch has fresh tensors and a verified output: nothing could be reused");
}

RuleFinding version_tested(const RuleContext& c) {
  if (!cache_of(c)) return no_cache();
  const std::vector<std::string>& tests = cache_of(c)->tests;
  if (tests.empty()) return fail("no test changes the weight in place and expects a miss");
  return pass("tests: " + tests.front());
}

RuleFinding within_structure(const RuleContext& c) {
  if (!c.round->decision || c.round->decision->effects.empty()) return not_applicable("nothing was confirmed");
  const double bound = structural_bound(c.state, *c.round), low = c.round->decision->effects.front().low;
  if (low > kBoundTolerance * bound)
    return fail(fmt::format("at least {:.3f}x, and the roofline leaves {:.3f}x", low, bound));
  const auto& trained = c.round->last().evaluated->evaluation.incumbent_training;
  if (trained && hypothesis_of(c).bucket == "W1") {
    const double most = amdahl_speedup(trained->weight / trained->kernel, INFINITY);
    if (low > kBoundTolerance * most)
      return fail(fmt::format("at least {:.3f}x, and skipping all work on the weight gives {:.3f}x", low, most));
  }
  return pass(
      fmt::format("{:.3f}x of the {:.3f}x that the roofline leaves", c.round->decision->effects.front().ratio, bound));
}

RuleFinding skewed_gain(const RuleContext& c) {
  if (!is_grouped(c.state.spec().op, c.state.spec().target_cases))
    return not_applicable(c.state.spec().op + " has no groups");
  if (!c.round->decision || !accepted(*c.round)) return not_applicable("not accepted");
  return unless(gains_on_skew(c.state, *c.round) ? std::string() : "no skewed load gains", "a skewed load gains too");
}

RuleFinding derived_decision(const RuleContext& c) {
  if (!c.round->decision || !accepted(*c.round)) return not_applicable("not accepted");
  const TransferDecision decision = transfer_of(c.state, *c.round);
  return unless(decision == TransferDecision::kOverfit ? "accepted, and derived as REJECT-as-overfit" : std::string(),
                std::string(to_string(decision)));
}

RuleFinding attribution(const RuleContext& c) {
  const Ledger ledger = ledger_of(c.state, c.state.rounds.size());
  const std::string text = fmt::format(
      "S {:.4f}x, W {:.4f}x, R {:.4f}x; headline {:.4f}x (sum of percentages {:+.2f} %), gap {:+.2f} %",
      ledger.structural, ledger.weight, ledger.residual, ledger.headline, ledger.sum_percent, ledger.gap_percent());
  return unless(ledger.verdict() == "clean" ? std::string() : ledger.verdict() + ": " + text, text);
}

RuleFinding tips_hygiene(const RuleContext& c) {
  if (!c.state.tips) return unknown("the tips are not read");
  for (const std::string& tip : c.state.tips->tips) {
    const std::string problem = knowledge::hygiene_problem(tip);
    if (!problem.empty()) return fail(problem);
  }
  return pass(fmt::format("{} tips used, none praises what training cannot have", c.state.tips->tips.size()));
}

constexpr Rule kTransferRules[] = {
    {52, "bucket and code", Phase::kValidate, RuleScope::kRound, false,
     "The declared bucket is what the code does; identity caches of activations are forbidden.", "bucket, added lines",
     bucket_matches},
    {53, "key audit", Phase::kValidate, RuleScope::kRound, false, "Every part of a cache's key is stable over steps.",
     "declared key", key_is_stable},
    {54, "4-step trace", Phase::kValidate, RuleScope::kRound, false,
     "Replayed over four training steps the key hits at least half of the time.", "declared key", four_step_trace},
    {55, "fresh inputs", Phase::kValidate, RuleScope::kRound, false,
     "The gain exists on fresh tensors; in eight steps only the weight's entry hits.", "verified calls, declared key",
     fresh_inputs},
    {56, "version test", Phase::kValidate, RuleScope::kRound, false,
     "A weight cache has a test that changes the weight in place.", "declared tests", version_tested},
    {57, "structural bound", Phase::kValidate, RuleScope::kRound, false,
     "The gain is not larger than what the change can give.", "roofline, incumbent's launches", within_structure},
    {58, "skewed gain", Phase::kValidate, RuleScope::kRound, true, "A grouped operator gains on a skewed load too.",
     "effects of skewed shapes", skewed_gain},
    {59, "transfer decision", Phase::kDecide, RuleScope::kRound, false,
     "Derived: as real only K1 to K4, with an asterisk only W1 with its bound; no overfit in the lineage.",
     "bucket, key, loads", derived_decision},
    {60, "attribution", Phase::kReport, RuleScope::kCampaign, false,
     "Real and bounded gains compound to the headline; more than 1 % between them is called inflation.",
     "accepted rounds", attribution},
    {61, "tips hygiene", Phase::kTips, RuleScope::kCampaign, true,
     "No tip praises an identity cache or what holds for uniform loads only; such ones are quarantined.", "tips",
     tips_hygiene},
};

}  // namespace

std::span<const Rule> transfer_rules() { return kTransferRules; }

}  // namespace ridge::campaign
