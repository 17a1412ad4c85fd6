// Rules 13-20: the baseline.
#include "campaign/lineage.h"
#include "campaign/rules/findings.h"
#include "campaign/skew.h"

namespace ridge::campaign {
namespace {

using namespace findings;

constexpr double kNearlyDegenerate = 0.5;  // share of one expert

RuleFinding not_yet() { return unknown("the baseline is not measured"); }

RuleFinding test_passes(const RuleContext& c) {
  if (!reached_baseline(c)) return not_yet();
  const std::vector<record::CheckRow>& checks = c.state.baseline->evaluation.checks;
  if (checks.empty()) return fail("nothing was run");
  for (const record::CheckRow& row : checks) {
    if (row.outcome != record::Outcome::kPass)
      return fail(fmt::format("{}: {}", row.label, record::name_of(row.outcome)));
  }
  return pass(fmt::format("{} shapes run, 0 failed", checks.size()));
}

RuleFinding all_shapes_measured(const RuleContext& c) {
  if (!reached_baseline(c)) return not_yet();
  const std::vector<std::string> labels = labels_of(c.state.spec().target_cases);
  const auto sessions = valid_sessions(c.state.baseline->evaluation.sessions, "calibrate");
  if (sessions.empty()) return fail("there is no calibration session");
  for (const record::Session* session : sessions) {
    const Result<SessionRatios> ratios = session_ratios(*session, labels);
    if (!ratios) return fail(ratios.error().message);
  }
  return pass(fmt::format("{} sessions over exactly the {} target shapes", sessions.size(), labels.size()));
}

// Place in the order of work, equal ones in the order of the list.
std::size_t rank_by_work(const std::vector<record::RooflinePoint>& points, const std::string& label) {
  const auto work = [](const record::RooflinePoint& p) { return std::max(p.cost.flop, p.cost.bytes); };
  const auto self = std::find_if(points.begin(), points.end(), [&](const auto& p) { return p.label == label; });
  std::size_t rank = 0;
  for (auto other = points.begin(); other != points.end(); ++other) {
    if (self == points.end() || work(*other) < work(*self) || (work(*other) == work(*self) && other < self)) ++rank;
  }
  return rank;
}

RuleFinding representatives(const RuleContext& c) {
  if (!reached_baseline(c)) return not_yet();
  const record::Baseline& baseline = *c.state.baseline;
  const std::size_t shapes = c.state.spec().target_cases.size(), chosen = baseline.representative_labels.size();
  const std::set<std::string> labels = as_set(baseline.representative_labels);
  if (labels.size() != chosen) return fail("a representative shape appears twice");
  if (chosen < std::min<std::size_t>(3, shapes) || chosen > 5)
    return fail(fmt::format("{} of {} shapes", chosen, shapes));
  std::set<std::size_t> terciles;
  for (const std::string& label : labels) {
    const auto row = std::find_if(baseline.evaluation.checks.begin(), baseline.evaluation.checks.end(),
                                  [&](const record::CheckRow& check) { return check.label == label; });
    if (row == baseline.evaluation.checks.end()) return fail(label + " is no target shape");
    if (row->outcome != record::Outcome::kPass) return fail(label + " did not pass");
    terciles.insert(3 * rank_by_work(baseline.evaluation.roofline, label) / std::max<std::size_t>(shapes, 1));
  }
  if (chosen < shapes && terciles.size() < 3) return fail("small, medium and large are not all there");
  return pass(fmt::format("{} of {} shapes: small, medium and large by work, then the noisiest", chosen, shapes));
}

RuleFinding skewed_loads(const RuleContext& c) {
  if (!is_grouped(c.state.spec().op, c.state.spec().target_cases))
    return not_applicable(c.state.spec().op + " has no groups");
  if (!reached_baseline(c)) return not_yet();
  const std::set<std::string> chosen = as_set(c.state.baseline->representative_labels);
  bool uniform = false, degenerate = false, empty = false;
  for (const record::Case& one : c.state.spec().target_cases) {
    if (!chosen.contains(one.label())) continue;
    const Load load = load_of(one);
    if (!load.known()) return fail(one.label() + " does not say how many tokens each group gets");
    uniform = uniform || load.uniform();
    degenerate = degenerate || load.largest_share >= kNearlyDegenerate;
    empty = empty || load.empty > 0;
  }
  if (!uniform) return fail("no representative load is uniform");
  if (!degenerate) return fail("no representative load gives one group half of all tokens");
  if (!empty) return fail("no representative load has an empty group");
  return pass("uniform, nearly degenerate and with an empty group");
}

RuleFinding quick_run(const RuleContext& c) {
  if (!reached_baseline(c)) return not_yet();
  const record::Baseline& baseline = *c.state.baseline;
  for (const std::string& label : baseline.representative_labels) {
    if (launches(baseline.evaluation.sessions, label, Arm::kCandidate).empty()) return fail(label + " was not timed");
  }
  return pass(fmt::format("{} representative shapes timed, raw launches kept", baseline.representative_labels.size()));
}

RuleFinding snapshot_root(const RuleContext& c) {
  if (!c.state.baseline_committed) return unknown("the baseline is not committed");
  const std::string digest = tree_digest(tree_of(c.state.created->baseline));
  return unless(
      c.state.baseline_committed->snapshot == digest ? std::string() : "the snapshot is not the baseline's tree",
      "tree " + digest.substr(0, 12) + " of all in-scope files");
}

RuleFinding environment_recorded(const RuleContext& c) {
  if (!c.state.prepared) return unknown("the environment is not recorded");
  const std::size_t facts = c.state.prepared->environment.facts.size();
  return unless(facts == 0 ? std::string("no fact about the machine is recorded") : std::string(),
                fmt::format("{} facts, {} ceilings", facts, c.state.prepared->ceilings.size()));
}

RuleFinding no_code_change(const RuleContext& c) {
  if (!reached_baseline(c)) return not_yet();
  const bool same = c.state.baseline->candidate.id() == c.state.created->baseline.id();
  return unless(same ? std::string() : "round 1 measured something else than the kernel that was handed in",
                "round 1 is the kernel as it was handed in");
}

constexpr Rule kBaselineRules[] = {
    {13, "focused test", Phase::kBaseline, RuleScope::kCampaign, false, "The focused test ran and passes fully.",
     "check rows of the baseline", test_passes},
    {14, "full benchmark", Phase::kBaseline, RuleScope::kCampaign, false,
     "The baseline is measured on all target shapes.", "calibration sessions", all_shapes_measured},
    {15, "representative shapes", Phase::kBaseline, RuleScope::kCampaign, false,
     "3 to 5 representative shapes, only passing ones, small, medium and large.",
     "representative_shapes, work of each shape", representatives},
    {16, "skewed loads", Phase::kBaseline, RuleScope::kCampaign, true,
     "Grouped operators: a uniform load, one with half of all tokens in one group, one with an empty group.",
     "tokens of the representative shapes", skewed_loads},
    {17, "quick run", Phase::kBaseline, RuleScope::kCampaign, false,
     "The representative shapes were run once by the timing engine; its log is kept.", "launches of the baseline",
     quick_run},
    {18, "rollback root", Phase::kBaseline, RuleScope::kCampaign, false,
     "The baseline's whole in-scope tree is the root of rollbacks.", "snapshot digest", snapshot_root},
    {19, "environment", Phase::kPrepare, RuleScope::kCampaign, false, "Machine, compiler and ceilings are recorded.",
     "environment fingerprint", environment_recorded},
    {20, "round 1", Phase::kBaseline, RuleScope::kCampaign, false, "Round 1 changes no code; its decision is BASELINE.",
     "ids of the baseline", no_code_change},
};

}  // namespace

std::span<const Rule> baseline_rules() { return kBaselineRules; }

}  // namespace ridge::campaign
