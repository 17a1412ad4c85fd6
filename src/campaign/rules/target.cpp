// Rules 1-12: the target, its confirmation, the environment.
#include <cctype>

#include "campaign/gates.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/project_table.h"
#include "campaign/render.h"
#include "campaign/rules/findings.h"
#include "campaign/target.h"

namespace ridge::campaign {
namespace {

using namespace findings;

RuleFinding parameters_filled(const RuleContext& c) {
  const Status valid = validate_spec(c.state.spec());
  return unless(valid ? std::string() : valid.error().message,
                fmt::format("every parameter is filled and in range, {} keys of the user's own kept",
                            c.state.spec().extra.size()));
}

RuleFinding prerequisites(const RuleContext& c) {
  if (c.state.created->baseline.sources.empty()) return fail("there is no kernel source");
  if (!c.state.prepared) return unknown("the environment is not prepared");
  if (c.state.prepared->ceilings.empty())
    return fail("the worker measured no ceiling: build, test and timing do not work");
  return pass(fmt::format("{} source files; the worker builds, checks and times ({} ceilings measured)",
                          c.state.created->baseline.sources.size(), c.state.prepared->ceilings.size()));
}

RuleFinding language_and_device(const RuleContext& c) {
  const record::CampaignSpec& spec = c.state.spec();
  const std::string problem = language_problem(spec.backend, spec.language);
  if (!problem.empty()) return fail(problem);
  if (!c.state.prepared) return unknown("the device was not asked yet");
  for (const auto& [name, value] : c.state.prepared->environment.facts) {
    if (short_machine_name(value) == spec.gpu)
      return pass(fmt::format("{} on {} ({} = {})", spec.language, spec.gpu, name, value));
  }
  return fail(fmt::format("the manifest is about {}, and no device of this machine has that name", spec.gpu));
}

RuleFinding iterations(const RuleContext& c) {
  const std::optional<std::int64_t> most = c.state.max_iterations;
  if (!most) return pass("no limit");
  return unless(*most < 1 || *most > 119 ? fmt::format("max_iterations = {} is not 1..119", *most) : std::string(),
                fmt::format("{} attempts, the baseline not counted", *most));
}

RuleFinding readable_target(const RuleContext& c) {
  if (!c.state.spec().performance_target) return pass("null");
  const std::string text = format_target(*c.state.spec().performance_target);
  const Result<record::Target> again = parse_target(text);
  const bool same = again && format_target(*again) == text;
  return unless(same ? std::string() : "the target is not what the grammar reads", text);
}

RuleFinding computable_metric(const RuleContext& c) {
  const std::string problem = primary_metric_problem(c.state.spec());
  return unless(problem, fmt::format("{} is computed from the frozen columns", c.state.spec().primary_metric));
}

RuleFinding confirmed(const RuleContext& c) {
  if (!c.state.confirmed) return fail("the manifest was not confirmed");
  const std::string& digest = c.state.confirmed->spec_digest;
  const bool bound = digest == spec_digest(manifest_of(c.state)) || digest == spec_digest(c.state.spec());
  return unless(bound ? std::string() : "the manifest changed after it was confirmed",
                fmt::format("by {}, manifest {}", c.state.confirmed->by, digest.substr(0, 12)));
}

RuleFinding branch(const RuleContext& c) {
  if (!c.state.spec().git_commit) return not_applicable("git_commit is false");
  if (!c.state.prepared) return unknown("the worktree is not made");
  const std::string wanted = branch_name(c.state.spec()), found = c.state.prepared->branch;
  if (wanted.empty()) return pass("git_branch is none: commits go to " + found);
  return unless(found == wanted ? std::string() : fmt::format("the branch is \"{}\", not \"{}\"", found, wanted),
                fmt::format("{} in the campaign's own repository, made by the engine", found));
}

// "2026-11-21 07:30"
bool is_minute(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd";
  return text.size() == kForm.size() && std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == 'd' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : c == form;
         });
}

RuleFinding stamped(const RuleContext& c) {
  const std::string& created = c.state.spec().created;
  return unless(is_minute(created) ? std::string() : fmt::format("created = \"{}\" is no minute of the clock", created),
                created + ", and every event by the engine's clock; no answer of a proposer has a time");
}

RuleFinding named(const RuleContext& c) { return unless(id_problem(c.state.spec()), c.state.spec().id); }

RuleFinding tips_read(const RuleContext& c) {
  if (!c.state.tips) return unknown("the tips are not read");
  return pass(c.state.tips->digest == "absent"
                  ? std::string("there is no tips file")
                  : fmt::format("{} entries, file {}", c.state.tips->tips.size(), c.state.tips->digest.substr(0, 12)));
}

RuleFinding harness_frozen(const RuleContext& c) {
  if (!c.state.prepared) return unknown("nothing is frozen yet");
  for (const auto& [name, digest] : frozen_digests(c.state)) {
    const auto found = c.state.prepared->frozen.find(name);
    // Prepared before there were any.
    if (found == c.state.prepared->frozen.end() && (name == "rules" || name == kRebuildGate)) continue;
    if (found == c.state.prepared->frozen.end()) return fail(fmt::format("{} was not frozen", name));
    if (found->second != digest) return fail(fmt::format("{} changed after it was frozen", name));
  }
  return pass(fmt::format("{} digests as frozen; shapes are data, not code", c.state.prepared->frozen.size()));
}

constexpr Rule kTargetRules[] = {
    {1, "parameters", Phase::kDefineTarget, RuleScope::kCampaign, false,
     "All parameters of the target are filled, typed and in range; unknown keys are kept.", "manifest",
     parameters_filled},
    {2, "prerequisites", Phase::kPrepare, RuleScope::kCampaign, true,
     "Kernel, test, benchmark, columns, scoring and rebuild exist and really work.",
     "baseline sources, worker's answers", prerequisites},
    {3, "language and device", Phase::kPrepare, RuleScope::kCampaign, true,
     "The language follows the backend, and the device is the one that is there.", "manifest, environment",
     language_and_device},
    {4, "iterations", Phase::kDefineTarget, RuleScope::kCampaign, false, "max_iterations is null or 1 to 119.",
     "manifest, extensions", iterations},
    {5, "target grammar", Phase::kDefineTarget, RuleScope::kCampaign, false,
     "performance_target is null or `metric op number unit [on scope]`; prose is refused.", "manifest",
     readable_target},
    {6, "metric", Phase::kDefineTarget, RuleScope::kCampaign, false,
     "primary_metric can be computed from the frozen columns.", "manifest, CSV header", computable_metric},
    {7, "confirmation", Phase::kConfirm, RuleScope::kCampaign, false,
     "The user confirmed the manifest; the confirmation holds its SHA-256.", "confirmation, manifest", confirmed},
    {8, "branch", Phase::kPrepare, RuleScope::kCampaign, true,
     "Commits go to optimize/<id>, the branch named, or none, by the engine's own git.", "manifest, worktree", branch},
    {9, "timestamps", Phase::kDefineTarget, RuleScope::kCampaign, false,
     "Times come from the engine's clock, never from a proposer.", "manifest", stamped},
    {10, "name", Phase::kDefineTarget, RuleScope::kCampaign, false,
     "The campaign is called <op>_<backend>_<device>_<date>, safe as a path.", "manifest", named},
    {11, "tips", Phase::kTips, RuleScope::kCampaign, false, "The tips of this target are read before round 1.",
     "tips file's digest and entries", tips_read},
    {12, "frozen harness", Phase::kPrepare, RuleScope::kCampaign, true,
     "Shapes, protocol, CSV header, baseline and rules are frozen; shapes are data.", "frozen digests", harness_frozen},
};

}  // namespace

std::span<const Rule> target_rules() { return kTargetRules; }

}  // namespace ridge::campaign
