#include "propose/answer.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "propose/space.h"
#include "record/category.h"
#include "record/tunables.h"

namespace ridge::propose {
namespace {

using record::AgentAnswer;
using record::AgentChange;
using record::Candidate;
using record::Hypothesis;
using record::ProposalRequest;

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostCount = 1'000'000'000'000;
constexpr double kMostUsd = 1e6;
constexpr std::size_t kMostChanges = 64, kMostText = 20'000, kLargestSource = 1u << 20;
constexpr std::string_view kBottlenecks[] = {"compute", "memory", "latency", "resource", "launch"};

Error refuse(std::string_view field, std::string what) {
  return with_hint(invalid("answer.{}: {}", field, what), "docs/proposers.md describes the answer");
}

template <std::size_t N>
Status one_of(std::string_view field, std::string_view value, const std::string_view (&allowed)[N]) {
  if (std::ranges::find(allowed, value) != std::end(allowed)) return ok_status();
  std::string names;
  for (const std::string_view name : allowed) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return refuse(field, fmt::format("\"{}\" is not one of {}", value, names));
}

Status short_text(std::string_view field, const std::string& text, bool needed) {
  if (needed && text.empty()) return refuse(field, "is empty");
  if (text.size() > kMostText) return refuse(field, fmt::format("{} bytes, at most {}", text.size(), kMostText));
  if (text.find('\0') != std::string::npos) return refuse(field, "holds a zero byte");
  return ok_status();
}

Status check_hypothesis(const ProposalRequest& request, const Hypothesis& h) {
  RIDGE_CHECK_OK(short_text("hypothesis.title", h.title, true));
  RIDGE_CHECK_OK(short_text("hypothesis.mechanism", h.mechanism, true));
  RIDGE_CHECK_OK(short_text("hypothesis.reasoning", h.reasoning, true));
  RIDGE_CHECK_OK(short_text("hypothesis.expected_gain_arithmetic", h.expected_gain_arithmetic, false));
  RIDGE_CHECK_OK(short_text("hypothesis.verification_signal", h.verification_signal, false));
  RIDGE_CHECK_OK(one_of("hypothesis.bottleneck", h.bottleneck, kBottlenecks));
  RIDGE_CHECK_OK(one_of("hypothesis.category", h.category, record::kCategories));
  if (!std::isfinite(h.expected_gain) || h.expected_gain <= 0) {
    return refuse("hypothesis.expected_gain", fmt::format("{} is not a positive fraction", h.expected_gain));
  }
  if (h.informed_by) {
    const auto same = [&](const record::RoundSummary& round) { return round.round == *h.informed_by; };
    if (std::ranges::none_of(request.history, same)) {
      return refuse("hypothesis.informed_by", fmt::format("there was no round {}", *h.informed_by));
    }
  }
  return ok_status();
}

Status check_usage(const record::Usage& usage) {
  RIDGE_CHECK_OK(short_text("usage.model", usage.model, false));
  for (const auto& [field, count] : {std::pair("usage.turns", usage.turns),
                                     {"usage.input_tokens", usage.input_tokens},
                                     {"usage.output_tokens", usage.output_tokens}}) {
    if (count < 0 || count > kMostCount)
      return refuse(field, fmt::format("{} is outside of 0 to {}", count, kMostCount));
  }
  if (usage.usd && !(*usage.usd >= 0 && *usage.usd <= kMostUsd))
    return refuse("usage.usd", fmt::format("{} is outside of 0 to {}", *usage.usd, kMostUsd));
  return ok_status();
}

Status replace_sources(const std::string& field, const AgentChange& change, Candidate& candidate) {
  for (std::size_t i = 0; i < change.sources.size(); ++i) {
    const record::SourceFile& file = change.sources[i];
    const std::string here = fmt::format("{}.sources[{}]", field, i);
    const auto target = std::ranges::find(candidate.sources, file.path, &record::SourceFile::path);
    if (target == candidate.sources.end()) {
      return refuse(here + ".path", fmt::format("\"{}\" is not a file of the incumbent; only those may be replaced",
                                                file.path.substr(0, 200)));
    }
    if (file.text.size() > kLargestSource || file.text.empty()) {
      return refuse(here + ".text", fmt::format("{} bytes, 1 to {} are allowed", file.text.size(), kLargestSource));
    }
    if (file.text.find('\0') != std::string::npos) return refuse(here + ".text", "holds a zero byte");
    target->text = file.text;
  }
  return ok_status();
}

// The defines against the space that the sources, new or old, declare; the needs of a launch plan are those of the old.
Status set_defines(const ProposalRequest& request, const std::string& field, const AgentChange& change,
                   Candidate& candidate) {
  Result<record::TuneSpace> declared = record::tune_space(candidate);
  if (!declared) return refuse(field + ".sources", declared.error().message);
  if (candidate.sources == request.incumbent.sources) {
    const std::vector<record::Constraint>& needs = request.build.needs;
    declared->constraints.insert(declared->constraints.end(), needs.begin(), needs.end());
  }
  Result<Space> space = Space::create(*declared);
  if (!space) return refuse(field + ".sources", space.error().message);
  std::erase_if(candidate.defines, [&](const auto& item) { return space->find(item.first) == nullptr; });
  for (const auto& [name, value] : change.defines) {
    if (const Status status = space->check({{name, value}}); space->find(name) == nullptr) {
      return refuse(field + ".defines", status.error().message);
    }
    candidate.defines[name] = value;
  }
  if (const Status status = space->check(candidate.defines); !status) {
    return refuse(field + ".defines", status.error().message);
  }
  return ok_status();
}

// Whether the two have the same sources and values; a tunable that is not set has its default.
bool is_same(const Candidate& candidate, const Candidate& incumbent) {
  if (candidate.sources != incumbent.sources) return false;
  if (candidate.id() == incumbent.id()) return true;
  const Result<record::TuneSpace> space = record::tune_space(candidate);
  if (!space) return false;
  const auto values = [&](const Candidate& one) {
    std::map<std::string, std::int64_t> all = one.defines;
    for (const record::Tunable& tunable : space->tunables) all.try_emplace(tunable.name, tunable.default_value);
    return all;
  };
  return values(candidate) == values(incumbent);
}

Result<Candidate> apply(const ProposalRequest& request, const std::string& field, const AgentChange& change) {
  RIDGE_CHECK_OK(short_text(field + ".name", change.name, false));
  Candidate candidate = request.incumbent;
  RIDGE_CHECK_OK(replace_sources(field, change, candidate));
  RIDGE_CHECK_OK(set_defines(request, field, change, candidate));
  if (is_same(candidate, request.incumbent)) return refuse(field, "changes nothing");
  candidate.parent = request.incumbent.id();
  candidate.name =
      change.name.empty() ? fmt::format("round {}: {}", request.round, to_text(change.defines)) : change.name;
  return candidate;
}

}  // namespace

Result<record::Proposal> to_proposal(const ProposalRequest& request, const AgentAnswer& answer) {
  if (answer.version != kVersion) {
    return refuse("version", fmt::format("{} is not {}, the version of the request", answer.version, kVersion));
  }
  record::Proposal proposal;
  if (answer.usage) RIDGE_CHECK_OK(check_usage(*answer.usage));
  proposal.usage = answer.usage;
  if (answer.exhausted) {
    RIDGE_CHECK_OK(short_text("reason", answer.reason, true));
    proposal.exhausted = true;
    proposal.reason = answer.reason;
    return proposal;
  }
  RIDGE_CHECK_OK(check_hypothesis(request, answer.hypothesis));
  if (answer.changes.empty()) return refuse("changes", "is empty, and the answer is not exhausted");
  if (answer.changes.size() > kMostChanges) {
    return refuse("changes", fmt::format("{} entries, at most {}", answer.changes.size(), kMostChanges));
  }
  proposal.hypothesis = answer.hypothesis;
  for (std::size_t i = 0; i < answer.changes.size(); ++i) {
    const std::string field = fmt::format("changes[{}]", i);
    RIDGE_TRY(candidate, apply(request, field, answer.changes[i]));
    const Candidate& first = proposal.candidates.empty() ? candidate : proposal.candidates.front();
    if (candidate.sources != first.sources) {
      return refuse(field, "one round makes one change: candidates of a sweep share their sources");
    }
    proposal.candidates.push_back(std::move(candidate));
  }
  return proposal;
}

}  // namespace ridge::propose
