// Rules 21-33: the hypothesis and the change. They ask what proposal_rules.h asked before anything was built, again.
#include "campaign/lineage.h"
#include "campaign/proposal_rules.h"
#include "campaign/rules/findings.h"
#include "campaign/scan.h"

namespace ridge::campaign {
namespace {

using namespace findings;

// The first refusal that the record of a round holds for rule `number`; empty: none.
std::string refusal_of(const RuleContext& c, int number) {
  const Round& round = *c.round;
  for (std::size_t i = 0; i < round.attempts.size(); ++i) {
    const ProposalView view{round.attempts[i].proposal,
                            c.state,
                            round.number,
                            round.incumbent,
                            round.incumbent_round,
                            i > 0 ? &round.attempts[i - 1] : nullptr};
    for (const ProposalRule& rule : proposal_rules()) {
      if (rule.rule != number) continue;
      std::string reason = rule.refusal(view);
      if (!reason.empty()) return fmt::format("attempt {}, {}: {}", i + 1, rule.name, reason);
    }
  }
  return {};
}

template <int kNumber>
RuleFinding as_proposed(const RuleContext& c, std::string good) {
  return unless(refusal_of(c, kNumber), std::move(good));
}

RuleFinding context_given(const RuleContext& c) {
  const std::size_t ids = hypothesis_of(c).evidence.size();
  return as_proposed<21>(c, fmt::format("{} evidence ids, all of records that exist", ids));
}
RuleFinding complete(const RuleContext& c) {
  return as_proposed<22>(c, fmt::format("{}, expected {:+.1f} %, bucket {}", hypothesis_of(c).bottleneck,
                                        100 * hypothesis_of(c).expected_gain, hypothesis_of(c).bucket));
}
RuleFinding bucket_allowed(const RuleContext& c) { return as_proposed<23>(c, hypothesis_of(c).bucket + ": allowed"); }
RuleFinding cache_audited(const RuleContext& c) {
  const bool cache = hypothesis_of(c).cache.has_value();
  return as_proposed<24>(c,
                         cache ? "the key is made of the weight, its version and its layout" : "no cache is planned");
}
RuleFinding not_a_repeat(const RuleContext& c) {
  return as_proposed<25>(c, "no earlier round measured the same code with the same parameters");
}
RuleFinding class_from_evidence(const RuleContext& c) {
  return as_proposed<26>(
      c, fmt::format("\"{}\" is not contradicted by the roofline and the counters", hypothesis_of(c).bottleneck));
}
RuleFinding one_primary(const RuleContext& c) {
  if (c.round->attempts.empty()) return fail("there is no hypothesis");
  return as_proposed<27>(c, "one: " + hypothesis_of(c).mechanism);
}
RuleFinding one_change(const RuleContext& c) {
  const std::size_t candidates = c.round->last().proposal.candidates.size();
  return as_proposed<28>(c, candidates == 1 ? std::string("one candidate, recorded before the tree changed")
                                            : fmt::format("a sweep of {} configurations over one source", candidates));
}

RuleFinding planned_files_only(const RuleContext& c) {
  RuleFinding found = as_proposed<29>(c, "every changed file is in the plan");
  const std::optional<record::Evaluated>& evaluated = c.round->last().evaluated;
  if (found.verdict != RuleVerdict::kPass || !evaluated || evaluated->tree.empty()) return found;
  const std::string wanted = tree_digest(tree_of(evaluated->candidate));
  if (evaluated->tree == wanted)
    return pass("every changed file is in the plan, and the tree on disk was the candidate");
  return fail(fmt::format("the tree on disk ({}) was not the candidate's ({})", evaluated->tree.substr(0, 12),
                          wanted.substr(0, 12)));
}

RuleFinding no_unrelated_change(const RuleContext& c) {
  const record::Candidate* candidate = c.round->last().candidate();
  const std::size_t lines = candidate == nullptr ? 0 : added_lines(c.round->incumbent, *candidate).size();
  return as_proposed<30>(c, fmt::format("{} lines of code added or changed; the interface is kept", lines));
}

RuleFinding rebuilt(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  if (e == nullptr || e->build.artifact.empty()) return not_applicable("nothing was built");
  for (const Round& other : c.state.rounds) {
    for (const Attempt& attempt : other.attempts) {
      if (!attempt.evaluated || other.number >= c.round->number) continue;
      const record::Evaluation& before = attempt.evaluated->evaluation;
      const bool same_candidate = before.candidate == e->candidate,
                 same_object = before.build.artifact == e->build.artifact;
      if (same_candidate && !same_object && !before.build.artifact.empty()) {
        return fail(fmt::format("round {} built another object from the same sources", other.number));
      }
    }
  }
  const bool is_incumbents = e->build.artifact == c.state.baseline->evaluation.build.artifact &&
                             e->candidate != c.state.baseline->candidate.id();
  if (is_incumbents && accepted(*c.round)) return fail("the object is the baseline's although the sources changed");
  return pass("object " + e->build.artifact.substr(0, 12) + ", one per set of sources");
}

RuleFinding no_identity_cache(const RuleContext& c) { return as_proposed<32>(c, "no added line remembers a tensor"); }
RuleFinding no_baked_in_load(const RuleContext& c) {
  return as_proposed<33>(c, "no added line fixes how loads are spread");
}

constexpr Rule kAnalyze[] = {
    {21, "context", Phase::kAnalyze, RuleScope::kRound, true,
     "The hypothesis rests on records of this campaign: every evidence id exists.", "request's digest, evidence ids",
     context_given},
    {22, "complete hypothesis", Phase::kAnalyze, RuleScope::kRound, true,
     "Bottleneck, change, expected gain as a number, risks, signal and transfer bucket are given.", "hypothesis",
     complete},
    {23, "bucket", Phase::kAnalyze, RuleScope::kRound, false, "K1 to K4, or W1 with its bound; W2 and W3 are dropped.",
     "bucket", bucket_allowed},
    {24, "cache audit", Phase::kAnalyze, RuleScope::kRound, false,
     "A cache declares its key before it is built, and every part of it is stable.", "plan's text, declared key",
     cache_audited},
    {25, "no repeat", Phase::kAnalyze, RuleScope::kRound, true,
     "It is not what an earlier round measured: compared without comments and blanks.", "sources, parameters",
     not_a_repeat},
    {26, "bottleneck", Phase::kAnalyze, RuleScope::kRound, true,
     "The bottleneck class does not contradict roofline and counters.", "roofline, build and profile counters",
     class_from_evidence},
    {27, "one hypothesis", Phase::kAnalyze, RuleScope::kRound, false, "Exactly one primary hypothesis.", "proposal",
     one_primary},
};

constexpr Rule kOptimize[] = {
    {28, "one change", Phase::kOptimize, RuleScope::kRound, true,
     "One round, one change, stated first; a sweep over unchanged source is one.", "proposal, declared tunables",
     one_change},
    {29, "planned files", Phase::kOptimize, RuleScope::kRound, false,
     "Only planned files change, and the tree on disk is the candidate.", "planned_files, tree digest",
     planned_files_only},
    {30, "nothing unrelated", Phase::kOptimize, RuleScope::kRound, true,
     "No change of comments and blanks alone; the exported interface is unchanged.",
     "sources without comments, exported names", no_unrelated_change},
    {31, "rebuild", Phase::kOptimize, RuleScope::kRound, false,
     "The built object changes if and only if the sources or parameters did.", "artefact digests", rebuilt},
    {32, "no identity cache", Phase::kOptimize, RuleScope::kRound, false,
     "No code that finds an activation or gradient again by its identity.", "added lines", no_identity_cache},
    {33, "no baked-in loads", Phase::kOptimize, RuleScope::kRound, true,
     "No group size fixed at compile time, no divisibility asserted, no group assumed non-empty.", "added lines",
     no_baked_in_load},
};

}  // namespace

std::span<const Rule> analyze_rules() { return kAnalyze; }
std::span<const Rule> optimize_rules() { return kOptimize; }

}  // namespace ridge::campaign
