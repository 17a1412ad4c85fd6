#include "service/campaign_propose.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "campaign/proposal_rules.h"
#include "campaign/transition.h"
#include "propose/manual.h"
#include "record/execution.h"
#include "service/candidate_file.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// "8%" or "1.08x" as a fraction.
Result<double> parse_gain(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (problem == std::errc() && std::isfinite(value)) {
    if (unit == "%" || unit == " %") return value / 100;
    if (unit == "x") return value - 1;
  }
  return with_hint(invalid("--expect {} is no gain", text.empty() ? "(missing)" : text),
                   "write how much faster the change should make it, for instance --expect 8% or --expect 1.08x");
}

// "MR=6", or several after commas.
Status add_defines(const std::string& text, std::map<std::string, std::int64_t>& defines) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, end - at);
    const std::size_t equals = one.find('=');
    std::int64_t value = 0;
    const char* const last = one.data() + one.size();
    const bool named = equals != std::string::npos && equals > 0 && equals + 1 < one.size();
    if (!named || std::from_chars(one.data() + equals + 1, last, value).ptr != last) {
      return with_hint(invalid("--defines {} is not NAME=INTEGER", one), "write for instance --defines MR=6,NV=2");
    }
    defines[one.substr(0, equals)] = value;
    at = end + 1;
  }
  return ok_status();
}

// The path that a file takes in a candidate: that of the incumbent's only source of this name, or else of its first.
std::string replaced_path(const record::Candidate& incumbent, const fs::path& name) {
  std::string path = incumbent.sources.front().path;
  std::int64_t same = 0;
  for (const record::SourceFile& source : incumbent.sources) {
    if (fs::path(source.path).filename() != name) continue;
    path = source.path;
    ++same;
  }
  return same == 1 ? path : incumbent.sources.front().path;
}

// The file in place of a source of the incumbent, and what it includes of the files beside it. Of a project only what
// the incumbent has: its other headers are there when it is built.
Result<std::vector<record::SourceFile>> sources_of(const Context& context, const campaign::State& state,
                                                   const std::string& path) {
  RIDGE_TRY(candidate, candidate_of(context, state.spec().op, path, {}));
  const record::Candidate& incumbent = state.incumbent.candidate;
  const bool of_project = record::is_of_project(state.spec());
  const std::string replaced = replaced_path(incumbent, fs::path(path).filename());
  std::vector<record::SourceFile> sources;
  for (std::size_t i = 0; i < candidate.sources.size(); ++i) {
    record::SourceFile& file = candidate.sources[i];
    std::error_code ignored;
    if (i > 0 && !fs::is_regular_file(fs::path(path).parent_path() / file.path, ignored)) continue;  // the library's
    if (i == 0)
      file.path = replaced;
    else if (of_project)
      file.path = (fs::path(replaced).parent_path() / file.path).lexically_normal().generic_string();
    const bool known = std::ranges::count(incumbent.sources, file.path, &record::SourceFile::path) > 0;
    if (of_project && !known) continue;
    if (std::ranges::count(incumbent.sources, file) == 0) sources.push_back(std::move(file));
  }
  return sources;
}

Error lacks(const char* flag, const char* what) {
  return with_hint(invalid("{} is missing: {}", flag, what),
                   "ridge campaign propose DIR --defines MR=6 --title '...' --reason '...' --expect 8%");
}

// Nothing where nothing was said.
Result<std::optional<record::Usage>> usage_of(const ProposeRequest& options) {
  if (options.model.empty() && options.usd.empty() && !options.turns && !options.input_tokens && !options.output_tokens)
    return std::optional<record::Usage>();
  record::Usage usage{options.model,
                      options.turns.value_or(0),
                      options.input_tokens.value_or(0),
                      options.output_tokens.value_or(0),
                      {}};
  if (!options.usd.empty()) {
    double dollars = 0;
    const char* const end = options.usd.data() + options.usd.size();
    if (const auto [rest, problem] = std::from_chars(options.usd.data(), end, dollars);
        problem != std::errc() || rest != end)
      return with_hint(invalid("--usd {} is no number", options.usd), "write dollars, for instance --usd 0.25");
    usage.usd = dollars;
  }
  return std::optional(std::move(usage));
}

Result<propose::ByHand> stated_by(const Context& context, const ProposeRequest& options, const campaign::State& state) {
  propose::ByHand stated;
  stated.by = options.by;
  RIDGE_TRY(usage, usage_of(options));
  stated.usage = std::move(usage);
  const campaign::Round* open = state.open_round();
  if (options.give_up) {
    if (open == nullptr) {
      return with_hint(make_error(ErrorCode::kConflict, "no round of {} is open", options.directory),
                       "--give-up ends a round whose kernel failed; without one there is nothing to give up");
    }
    stated.give_up = "given up by hand";
    return stated;
  }
  for (const std::string& text : options.defines) RIDGE_CHECK_OK(add_defines(text, stated.change.defines));
  if (!options.kernel.empty()) {
    RIDGE_TRY(sources, sources_of(context, state, options.kernel));
    stated.change.sources = std::move(sources);
  }
  if (stated.change.defines.empty() && options.kernel.empty())
    return lacks("--kernel or --defines", "a round changes the source, values of its tunables, or both");
  // A repair keeps what its round was about.
  if (open != nullptr) stated.hypothesis = open->last().proposal.hypothesis;
  record::Hypothesis& h = stated.hypothesis;
  if (open != nullptr) h.planned_files.clear();
  if (!options.title.empty()) h.title = options.title;
  if (!options.reason.empty()) h.reasoning = options.reason;
  if (!options.expect.empty() || open == nullptr) {
    RIDGE_TRY(gain, parse_gain(options.expect));
    h.expected_gain = gain;
  }
  if (h.title.empty()) return lacks("--title", "one line that says what changes");
  if (h.reasoning.empty()) return lacks("--reason", "why it should be faster");
  if (!options.category.empty()) h.category = options.category;
  if (!options.bottleneck.empty()) h.bottleneck = options.bottleneck;
  if (!options.signal.empty()) h.verification_signal = options.signal;
  if (!options.risks.empty()) h.risks = options.risks;
  if (options.informed_by) h.informed_by = options.informed_by;
  return stated;
}

// Everything that can be refused is, before the journal has a line of it.
Status check(const campaign::State& state, const propose::ByHand& stated) {
  RIDGE_TRY(proposal, propose::proposal_by_hand(campaign::proposal_request(state), stated));
  if (const std::string why = campaign::refuse(proposal, state); !why.empty()) {
    return with_hint(invalid("refused: {}", why), "nothing was recorded; change it and propose again (docs/rules.md)");
  }
  return ok_status();
}

// A kernel that failed leaves its round open for a repair.
Error failed_kernel(const std::string& directory, const campaign::Round& round) {
  const record::Evaluation& evaluation = round.last().evaluated->evaluation;
  const std::size_t left = campaign::kMaxAttempts - round.attempts.size();
  return with_hint(
      invalid("round {}: {}: {}", round.number, record::name_of(evaluation.outcome), evaluation.detail),
      fmt::format("the round is open for {} more attempt{}: correct the kernel and propose it again (`ridge campaign "
                  "propose {} --kernel FILE`), or give the round up with `ridge campaign propose {} --give-up`",
                  left, left == 1 ? "" : "s", directory, directory));
}

// `before`: what was decided on; every refusal that it has is of an earlier run.
Result<Proposed> outcome_of(const ProposeRequest& options, Ran ran, const campaign::State& before) {
  Proposed proposed{std::move(ran), campaign::standpoint_of(before).round, {}};
  const campaign::State& state = proposed.ran.state;
  const auto round = std::ranges::find(state.rounds, proposed.round, &campaign::Round::number);
  if (round == state.rounds.end()) {
    const bool asked = state.refused.size() > before.refused.size();
    const std::string why = !asked ? proposed.ran.result.reason : "refused: " + state.refused.back().refused;
    return with_hint(make_error(ErrorCode::kConflict, "round {} was not begun: {}", proposed.round, why),
                     fmt::format("ridge campaign status {}", options.directory));
  }
  if (round->closed())
    proposed.decided = campaign::summarise(*round);
  else if (campaign::repair_is_due(*round))
    return failed_kernel(options.directory, *round);
  return proposed;
}

}  // namespace

Result<Proposed> propose_round(const Context& context, const ProposeRequest& options) {
  RIDGE_TRY(state, campaign::load_campaign(options.directory));
  if (const campaign::LockHolder holder = campaign::lock_holder(options.directory); holder.pid != 0) {
    return with_hint(
        make_error(ErrorCode::kConflict, "process {} is working on the campaign {}", holder.pid, options.directory),
        fmt::format("one round at a time: wait for it (`ridge campaign watch {0}`), or pause it with `ridge campaign "
                    "pause {0}`, and propose again",
                    options.directory));
  }
  RIDGE_CHECK_OK(campaign::takes_a_round(state, options.directory));
  RIDGE_TRY(stated, stated_by(context, options, state));
  if (!options.give_up) RIDGE_CHECK_OK(check(state, stated));
  const campaign::Standpoint seen = campaign::standpoint_of(state);  // another process may work until we have the lock
  const std::unique_ptr<propose::Proposer> proposer = propose::make_by_hand(std::move(stated));
  RIDGE_TRY(ran, drive_campaign(context, options.directory, options.run, *proposer, seen));
  return outcome_of(options, std::move(ran), state);
}

}  // namespace ridge::service
