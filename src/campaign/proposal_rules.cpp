#include "campaign/proposal_rules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "campaign/lineage.h"

namespace ridge::campaign {
namespace {

using record::Candidate;
using record::Proposal;

constexpr std::size_t kMostCandidates = 512;
constexpr std::size_t kLargestSource = 1u << 20;
constexpr std::string_view kBottlenecks[] = {"compute", "memory", "latency", "resource", "launch"};
constexpr std::string_view kCategories[] = {"tile", "layout", "pipeline", "resource", "backend", "algorithm"};
constexpr std::string_view kBuckets[] = {"K1", "K2", "K3", "K4", "W1"};

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::string has_candidates(const Proposal& proposal, const State&) {
  if (proposal.candidates.empty()) return "it has no candidate and is not exhausted";
  if (proposal.candidates.size() > kMostCandidates) {
    return fmt::format("{} candidates are more than {}", proposal.candidates.size(), kMostCandidates);
  }
  return {};
}

std::string is_complete(const Proposal& proposal, const State&) {
  const record::Hypothesis& h = proposal.hypothesis;
  if (h.title.empty()) return "the hypothesis has no title";
  if (h.mechanism.empty()) return "the hypothesis has no mechanism";
  if (!contains(kBottlenecks, h.bottleneck)) {
    return fmt::format("bottleneck \"{}\" is not compute, memory, latency, resource or launch", h.bottleneck);
  }
  if (!contains(kCategories, h.category)) {
    return fmt::format("category \"{}\" is not tile, layout, pipeline, resource, backend or algorithm", h.category);
  }
  if (!std::isfinite(h.expected_gain) || h.expected_gain <= 0) {
    return fmt::format("expected_gain {} is not a positive fraction", h.expected_gain);
  }
  return {};
}

std::string may_transfer(const Proposal& proposal, const State&) {
  const std::string& bucket = proposal.hypothesis.bucket;
  if (bucket == "W2" || bucket == "W3") {
    return bucket +
           " caches on the identity of a tensor that is new in every training step; its gain does not exist there";
  }
  if (!contains(kBuckets, bucket)) return fmt::format("transfer bucket \"{}\" is not K1, K2, K3, K4 or W1", bucket);
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
    if (source.text.size() > kLargestSource) {
      return fmt::format("{} has {} bytes, at most {} are allowed", source.path, source.text.size(), kLargestSource);
    }
  }
  return {};
}

std::string sources_are_sound(const Proposal& proposal, const State& state) {
  for (const Candidate& candidate : proposal.candidates) {
    std::string problem = source_problem(candidate, state);
    if (!problem.empty()) return "candidate " + candidate.name + ": " + problem;
  }
  return {};
}

// One round, one change: several candidates are a sweep of parameters over one and the same source.
std::string is_one_change(const Proposal& proposal, const State&) {
  const Candidate& first = proposal.candidates.front();
  std::set<std::string> ids;
  for (const Candidate& candidate : proposal.candidates) {
    if (candidate.sources != first.sources) return "a sweep may vary parameters only; its sources differ";
    if (!ids.insert(candidate.id()).second) return "candidate " + candidate.name + " appears twice";
  }
  return {};
}

std::string changes_something(const Proposal& proposal, const State& state) {
  const std::string incumbent = state.incumbent.candidate.id();
  const bool all_same = std::all_of(proposal.candidates.begin(), proposal.candidates.end(),
                                    [&](const Candidate& candidate) { return candidate.id() == incumbent; });
  return all_same ? "it is the incumbent unchanged" : std::string();
}

// The rounds that refuted something; a harness fault or an inconclusive measurement refuted nothing.
bool refuted(const Round& round) {
  return round.rolled_back && round.decision && round.decision->outcome != record::Outcome::kHarnessFault &&
         round.decision->outcome != record::Outcome::kAmbiguous;
}

std::string is_new(const Proposal& proposal, const State& state) {
  if (proposal.candidates.size() > 1) return {};
  const std::string id = proposal.candidates.front().id();
  if (id == state.baseline->candidate.id()) return "it is the baseline";
  for (const Round& round : state.rounds) {
    if (!round.closed() || round.last().candidate() == nullptr || round.last().candidate()->id() != id) continue;
    if (round.committed) return fmt::format("round {} accepted this very candidate; later ones beat it", round.number);
    if (refuted(round))
      return fmt::format("round {} measured this very candidate: {}", round.number, round.decision->reason);
  }
  return {};
}

// A repair keeps the round's hypothesis.
std::string keeps_hypothesis(const Proposal& proposal, const State& state) {
  const Round* round = state.open_round();
  if (round == nullptr) return {};
  const std::string& mechanism = round->last().proposal.hypothesis.mechanism;
  if (proposal.hypothesis.mechanism != mechanism) {
    return fmt::format("round {} is about \"{}\", not \"{}\"", round->number, mechanism, proposal.hypothesis.mechanism);
  }
  const Candidate* failed = round->last().candidate();
  const auto is_failed = [&](const Candidate& candidate) {
    return failed != nullptr && candidate.id() == failed->id();
  };
  const bool again = std::any_of(proposal.candidates.begin(), proposal.candidates.end(), is_failed);
  return again ? "it offers the candidate that failed" : std::string();
}

constexpr ProposalRule kRules[] = {
    {"candidates", has_candidates}, {"complete", is_complete},     {"transfer", may_transfer},
    {"sources", sources_are_sound}, {"one change", is_one_change}, {"change", changes_something},
    {"not tried before", is_new},   {"repair", keeps_hypothesis},
};

}  // namespace

std::span<const ProposalRule> proposal_rules() { return kRules; }

std::string refuse(const Proposal& proposal, const State& state) {
  if (proposal.exhausted) return {};
  for (const ProposalRule& rule : kRules) {
    std::string reason = rule.refusal(proposal, state);
    if (!reason.empty()) return fmt::format("{}: {}", rule.name, reason);
  }
  return {};
}

}  // namespace ridge::campaign
