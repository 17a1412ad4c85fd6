#include "campaign/proposal_rules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "campaign/escalate.h"
#include "campaign/lineage.h"
#include "campaign/proposal_evidence.h"
#include "campaign/scan.h"
#include "campaign/skew.h"
#include "campaign/transfer.h"
#include "record/category.h"
#include "record/tunables.h"

namespace ridge::campaign {
namespace {

using record::Candidate;
using record::Proposal;

constexpr std::size_t kMostCandidates = 512;
constexpr std::size_t kLargestSource = 1u << 20;
constexpr std::string_view kBottlenecks[] = {"compute", "memory", "latency", "resource", "launch"};
constexpr std::string_view kBuckets[] = {"K1", "K2", "K3", "K4", "W1"};

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::string has_candidates(const ProposalView& v) {
  if (v.proposal.candidates.empty()) return "it has no candidate and is not exhausted";
  if (v.proposal.candidates.size() > kMostCandidates) {
    return fmt::format("{} candidates are more than {}", v.proposal.candidates.size(), kMostCandidates);
  }
  return {};
}

std::string is_complete(const ProposalView& v) {
  const record::Hypothesis& h = v.proposal.hypothesis;
  if (h.title.empty()) return "the hypothesis has no title";
  if (h.title.find('\n') != std::string::npos) return "the title has more than one line: one hypothesis per round";
  if (h.mechanism.empty()) return "the hypothesis has no mechanism";
  if (!contains(kBottlenecks, h.bottleneck)) {
    return fmt::format("bottleneck \"{}\" is not compute, memory, latency, resource or launch", h.bottleneck);
  }
  if (!contains(record::kCategories, h.category)) {
    return fmt::format("category \"{}\" is not tile, layout, pipeline, resource, backend or algorithm", h.category);
  }
  if (!std::isfinite(h.expected_gain) || h.expected_gain <= 0) {
    return fmt::format("expected_gain {} is not a positive fraction", h.expected_gain);
  }
  if (h.risks.empty()) return "the hypothesis names no risk";
  if (h.verification_signal.empty()) return "the hypothesis has no verification_signal: what would show it?";
  return {};
}

std::string may_transfer(const ProposalView& v) {
  const std::string& bucket = v.proposal.hypothesis.bucket;
  if (bucket == "W2" || bucket == "W3") {
    return bucket +
           " caches on the identity of a tensor that is new in every training step; its gain does not exist there";
  }
  if (!contains(kBuckets, bucket)) return fmt::format("transfer bucket \"{}\" is not K1, K2, K3, K4 or W1", bucket);
  const bool cache = v.proposal.hypothesis.cache.has_value();
  if (cache && bucket != "W1") return fmt::format("it declares a cache, and bucket {} has none: that is W1", bucket);
  if (!cache && bucket == "W1") return "bucket W1 is a weight cache, and no cache is declared";
  return {};
}

std::string cache_is_audited(const ProposalView& v) {
  const record::Hypothesis& h = v.proposal.hypothesis;
  if (h.cache) {
    if (h.cache->key.empty()) return "the cache has no key";
    return refuse_key(h.cache->key);
  }
  const std::vector<std::string> words = cache_words(h.title + "\n" + h.reasoning + "\n" + h.mechanism);
  if (!words.empty()) return fmt::format("the plan speaks of \"{}\" and declares no cache with its key", words.front());
  return {};
}

std::string source_problem(const Candidate& candidate, const State& state) {
  if (candidate.op != state.spec().op) return fmt::format("it implements {}, not {}", candidate.op, state.spec().op);
  if (candidate.backend != state.spec().backend) {
    return fmt::format("it is for backend {}, not {}", candidate.backend, state.spec().backend);
  }
  if (candidate.sources.empty()) return "it has no source";
  std::set<std::string> paths;
  for (const record::SourceFile& source : candidate.sources) {
    if (!is_safe_path(source.path)) return fmt::format("source path \"{}\" is not allowed", source.path);
    if (!paths.insert(source.path).second) return fmt::format("source path \"{}\" appears twice", source.path);
    if (!is_utf8(source.text))
      return fmt::format("{} is not UTF-8: the record could not hold it as it is", source.path);
    if (source.text.size() > kLargestSource) {
      return fmt::format("{} has {} bytes, at most {} are allowed", source.path, source.text.size(), kLargestSource);
    }
  }
  return {};
}

std::string sources_are_sound(const ProposalView& v) {
  for (const Candidate& candidate : v.proposal.candidates) {
    std::string problem = source_problem(candidate, v.state);
    if (!problem.empty()) return "candidate " + candidate.name + ": " + problem;
  }
  return {};
}

std::set<std::string> changed_files(const Candidate& before, const Candidate& after) {
  std::set<std::string> changed;
  const Tree old = tree_of(before), now = tree_of(after);
  for (const record::SourceFile& source : after.sources) {
    const auto found = old.find(source.path);
    if (found == old.end() || found->second != source.text) changed.insert(source.path);
  }
  for (const record::SourceFile& source : before.sources) {
    if (!now.contains(source.path)) changed.insert(source.path);
  }
  return changed;
}

// Only planned files change: the plan is stated with the hypothesis, the change is what the sources say.
std::string keeps_to_the_plan(const ProposalView& v) {
  const std::vector<std::string>& plan = v.proposal.hypothesis.planned_files;
  for (const std::string& path : changed_files(v.incumbent, v.proposal.candidates.front())) {
    if (!contains(plan, path)) return fmt::format("{} changes and is not among planned_files", path);
  }
  return {};
}

// Tunables of one declared group are one family, every other is its own.
std::set<std::string> changed_families(const Candidate& before, const Candidate& after) {
  std::set<std::string> families;
  const Result<record::TuneSpace> space = record::tune_space(before);
  for (const auto& [name, value] : after.defines) {
    const auto old = before.defines.find(name);
    if (old != before.defines.end() && old->second == value) continue;
    std::string family = name;
    if (space) {
      for (const record::Tunable& tunable : space->tunables) {
        if (tunable.name != name) continue;
        if (old == before.defines.end() && tunable.default_value == value) family.clear();
        if (!family.empty() && !tunable.group.empty()) family = tunable.group;
      }
    }
    if (!family.empty()) families.insert(family);
  }
  return families;
}

// One round, one change: several candidates are a sweep of parameters over one and the same source.
std::string is_one_change(const ProposalView& v) {
  const Candidate& first = v.proposal.candidates.front();
  std::set<std::string> ids;
  for (const Candidate& candidate : v.proposal.candidates) {
    if (candidate.sources != first.sources) return "a sweep may vary parameters only; its sources differ";
    if (candidate.flags != first.flags) return "a sweep may vary parameters only; its flags differ";
    if (!ids.insert(candidate.id()).second) return "candidate " + candidate.name + " appears twice";
  }
  if (v.proposal.candidates.size() > 1) return {};
  const std::set<std::string> families = changed_families(v.incumbent, first);
  if (families.size() > 1) {
    return fmt::format("{} and {} change at once: one round changes one family; offer the combinations as a sweep",
                       *families.begin(), *std::next(families.begin()));
  }
  if (!families.empty() && first.flags != v.incumbent.flags) return "a tunable and the compiler's flags change at once";
  return {};
}

std::string changes_something(const ProposalView& v) {
  const std::string incumbent = v.incumbent.id();
  const bool all_same = std::all_of(v.proposal.candidates.begin(), v.proposal.candidates.end(),
                                    [&](const Candidate& candidate) { return candidate.id() == incumbent; });
  if (all_same) return "it is the incumbent unchanged";
  const bool only_comments = std::all_of(v.proposal.candidates.begin(), v.proposal.candidates.end(),
                                         [&](const Candidate& c) { return meaning_of(c) == meaning_of(v.incumbent); });
  return only_comments ? "only comments and blanks change" : std::string();
}

std::string keeps_the_interface(const ProposalView& v) {
  const std::vector<std::string> now = exported_names(v.proposal.candidates.front());
  for (const std::string& name : exported_names(v.incumbent)) {
    if (!contains(now, name)) return fmt::format("the function {} is gone from the sources", name);
  }
  return {};
}

std::string remembers_no_tensor(const ProposalView& v) {
  if (v.proposal.hypothesis.cache) return {};  // declared, and audited by its key
  const std::vector<ScanFinding> found = find_identity_memory(v.incumbent, v.proposal.candidates.front());
  return found.empty() ? std::string() : found.front().text();
}

std::string bakes_no_load_in(const ProposalView& v) {
  const std::vector<ScanFinding> found = find_baked_in_load(v.incumbent, v.proposal.candidates.front());
  return found.empty() ? std::string() : found.front().text();
}

// The rounds that refuted something; a harness fault or an inconclusive measurement refuted nothing.
bool refuted(const Round& round) { return round.rolled_back && round.state() == record::RoundState::kRolledBack; }

std::string is_new(const ProposalView& v) {
  if (v.proposal.candidates.size() > 1) return {};
  const std::string meaning = meaning_of(v.proposal.candidates.front());
  if (meaning == meaning_of(v.state.baseline->candidate)) return "it is the baseline";
  for (const Round* round : v.state.known_before(v.round)) {
    if (round->last().candidate() == nullptr || meaning_of(*round->last().candidate()) != meaning) continue;
    if (round->committed)
      return fmt::format("round {} accepted this very candidate; later ones beat it", round->number);
    if (refuted(*round))
      return fmt::format("round {} measured this very candidate: {}", round->number, round->decision->reason);
  }
  return {};
}

// A repair keeps the round's hypothesis.
std::string keeps_hypothesis(const ProposalView& v) {
  if (v.repaired == nullptr) return {};
  const std::string& mechanism = v.repaired->proposal.hypothesis.mechanism;
  if (v.proposal.hypothesis.mechanism != mechanism) {
    return fmt::format("round {} is about \"{}\", not \"{}\"", v.round, mechanism, v.proposal.hypothesis.mechanism);
  }
  const Candidate* failed = v.repaired->candidate();
  const auto is_failed = [&](const Candidate& candidate) {
    return failed != nullptr && candidate.id() == failed->id();
  };
  const bool again = std::any_of(v.proposal.candidates.begin(), v.proposal.candidates.end(), is_failed);
  return again ? "it offers the candidate that failed" : std::string();
}

// After a rollback the next hypothesis says which round it learned from.
std::string is_informed(const ProposalView& v) {
  const std::optional<std::int64_t>& source = v.proposal.hypothesis.informed_by;
  const auto closed = [&](std::int64_t number) {
    const std::vector<const Round*> known = v.state.known_before(v.round);
    return std::any_of(known.begin(), known.end(), [&](const Round* round) { return round->number == number; });
  };
  if (source && !closed(*source))
    return fmt::format("informed_by names round {}, which is not closed or is masked", *source);
  const Round* last = last_refuted(v.state, v.round);
  if (last == nullptr || source) return {};
  return fmt::format("round {} was rolled back ({}): informed_by must name the round that led here", last->number,
                     last->decision->reason);
}

constexpr ProposalRule kRules[] = {
    {27, "candidates", has_candidates},       {22, "complete", is_complete},
    {23, "transfer", may_transfer},           {24, "cache audit", cache_is_audited},
    {29, "sources", sources_are_sound},       {28, "one change", is_one_change},
    {30, "change", changes_something},        {30, "interface", keeps_the_interface},
    {29, "planned files", keeps_to_the_plan}, {25, "not tried before", is_new},
    {35, "repair", keeps_hypothesis},         {67, "informed by", is_informed},
    {21, "evidence", unknown_evidence},       {26, "bottleneck", bottleneck_without_evidence},
    {32, "identity", remembers_no_tensor},    {33, "loads", bakes_no_load_in},
};

}  // namespace

std::span<const ProposalRule> proposal_rules() { return kRules; }

std::string refuse(const Proposal& proposal, const State& state) {
  if (proposal.exhausted) return {};
  const Round* open = state.open_round();
  const ProposalView view{proposal,
                          state,
                          open != nullptr ? open->number : state.next_round(),
                          state.incumbent.candidate,
                          state.incumbent.round,
                          open != nullptr ? &open->last() : nullptr};
  for (const ProposalRule& rule : kRules) {
    std::string reason = rule.refusal(view);
    if (!reason.empty()) return fmt::format("{}: {}", rule.name, reason);
  }
  return {};
}

}  // namespace ridge::campaign
