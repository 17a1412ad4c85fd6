// Rules 62-75: lineage, logs, escalation, the end.
#include "campaign/lineage.h"
#include "base/files.h"
#include "campaign/escalate.h"
#include "campaign/proposal_rules.h"
#include "campaign/render.h"
#include "campaign/rules/findings.h"
#include "campaign/target.h"
#include "campaign/upstream.h"
#include "execute/project_executor.h"
#include "record/execution.h"

namespace ridge::campaign {
namespace {

using namespace findings;

constexpr double kSlack = 0.99;  // of an accepted round's paired ratio
RuleFinding snapshot_kept(const RuleContext& c) {
  const Round& round = *c.round;
  if (!round.closed()) return not_applicable("the round is open");
  if (round.committed) {
    const bool same = round.committed->snapshot == tree_digest(tree_of(round.last().evaluated->candidate));
    return unless(same ? std::string() : "the snapshot is not the accepted candidate",
                  "tree " + round.committed->snapshot.substr(0, 12));
  }
  const bool same = round.rolled_back->snapshot == tree_digest(tree_of(round.incumbent));
  return unless(same ? std::string() : "what was restored is not the last accepted tree",
                "restored " + round.rolled_back->snapshot.substr(0, 12));
}

RuleFinding trend_rises(const RuleContext& c) {
  std::string worst;
  std::int64_t rows = 1;
  double product = 1.0;
  for (const Round& round : c.state.rounds) {
    if (!round.closed()) continue;
    ++rows;
    if (!round.committed || round.decision->effects.empty()) continue;
    const double ratio = round.decision->effects.front().ratio;
    product *= ratio;
    if (ratio < kSlack) worst = fmt::format("round {} was accepted at {:.3f}x", round.number, ratio);
  }
  return unless(worst, fmt::format("{} rows; accepted rounds rise to {:.3f}x of the baseline", rows, product));
}

RuleFinding logs_append_only(const RuleContext& c) {
  if (c.directory == nullptr) return not_applicable("asked without the folder");
  if (!c.state.baseline_committed) return not_applicable("there is no log yet");
  for (const auto& [path, content] :
       {std::pair("logs/optimize.md", render_optimize_log(c.state)),
        std::pair("logs/performance_trend.md", render_trend(c.state, rate_of(c.state)))}) {
    const Result<std::string> found = read_file(*c.directory / path);
    if (found && !std::string_view(content).starts_with(*found) && !std::string_view(*found).starts_with(content)) {
      return fail(fmt::format("{} was edited", path));
    }
  }
  return pass("what is on disk is the beginning of what the record gives");
}

RuleFinding linear_chain(const RuleContext& c) {
  std::int64_t best = 1;
  for (const Round& round : c.state.rounds) {
    if (round.incumbent_round != best) {
      return fail(fmt::format("round {} was measured against round {}, accepted last was {}", round.number,
                              round.incumbent_round, best));
    }
    if (round.committed) best = round.number;
  }
  if (c.directory == nullptr || c.state.open_round() != nullptr || !c.state.baseline_committed) {
    return pass(fmt::format("every round was measured against the last accepted; now round {}", best));
  }
  const Tree wanted = tree_of(c.state.incumbent.candidate);
  const Result<Tree> found = read_tree(*c.directory / "src", wanted);
  if (!found) return unknown(found.error().message);
  if (c.state.reported && found->empty())
    return pass(fmt::format("it ended at round {}; the worktree is taken away", best));
  return unless(*found == wanted ? std::string() : "the private worktree is not the last accepted tree",
                fmt::format("the private worktree is round {}", best));
}

RuleFinding informed(const RuleContext& c) {
  const Round* last = last_refuted(c.state, c.round->number);
  const std::optional<std::int64_t>& by = hypothesis_of(c).informed_by;
  if (last == nullptr) return not_applicable("no rollback came before");
  if (!by) return fail(fmt::format("round {} was rolled back, and the next hypothesis names no round", last->number));
  const bool closed = *by < c.round->number && *by >= 2;
  return unless(closed ? std::string() : fmt::format("round {} is not closed", *by),
                fmt::format("informed by round {}", *by));
}

RuleFinding escalated(const RuleContext& c) {
  const std::int64_t due = escalation_due(c.state, c.round->number);
  if (due == 0) return not_applicable("no rollback came before");
  const record::Escalated* evidence = escalation_of(c.state, c.round->number);
  if (evidence == nullptr) return fail(fmt::format("{} rollbacks in a row, and no evidence was gathered", due));
  if (evidence->level < due) return fail(fmt::format("level {} was gathered, {} is due", evidence->level, due));
  if (evidence->findings.empty()) return fail("the evidence holds nothing");
  const bool current = due < 2 || evidence->artifact == incumbent_artifact(c.state, *c.round);
  return unless(current ? std::string() : "the evidence is about another build",
                fmt::format("level {}: {} findings, {} figures", evidence->level, evidence->findings.size(),
                            evidence->figures.size()));
}

RuleFinding reviewed(const RuleContext& c) {
  if (!review_due(c.state, c.round->number)) return not_applicable("no stagnation came before");
  const record::Escalated* evidence = escalation_of(c.state, c.round->number);
  if (evidence == nullptr) return fail("a review is due and was not held");
  std::set<std::string> categories;
  for (const record::Direction& direction : evidence->directions) categories.insert(direction.category);
  const bool enough = evidence->directions.size() >= 3 && categories.size() >= 2;
  return unless(enough ? std::string()
                       : fmt::format("{} directions of {} categories", evidence->directions.size(), categories.size()),
                fmt::format("{} new directions of {} categories", evidence->directions.size(), categories.size()));
}

RuleFinding committed(const RuleContext& c) {
  if (!c.round->committed) return not_applicable("not accepted");
  if (!c.state.spec().git_commit) return not_applicable("git_commit is false; the snapshot is the lineage");
  const std::string& commit = c.round->committed->commit;
  return unless(commit.empty() ? "accepted without a commit" : std::string(), "commit " + commit.substr(0, 12));
}

RuleFinding integrated(const RuleContext& c) {
  if (!record::is_of_project(c.state.spec())) return not_applicable("the campaign's own worktree is where it ends");
  const std::optional<Upstream> upstream = upstream_of(c.state.spec());
  const bool in_part = upstream && !upstream->extracted.empty();
  for (const Round& round : c.state.rounds) {
    if (!round.committed) continue;
    const auto& counts = round.last().evaluated->evaluation.build.counts;
    if (in_part && !counts.contains(execute::kPassedWhole))
      return unknown(fmt::format("round {} was not tested in the whole project as of {}", round.number,
                                 upstream->commit.substr(0, 12)));
    const std::string& timing = round.last().evaluated->evaluation.timing;
    if (timing != "project-command")
      return unknown(fmt::format("round {} was not built and tested inside the project", round.number));
  }
  if (!in_part) return pass("every accepted round was built, tested and timed inside a copy of the whole project");
  return pass(fmt::format("every accepted round was built and tested in the whole project as of {}, too",
                          upstream->commit.substr(0, 12)));
}

RuleFinding final_measured(const RuleContext& c) {
  if (!c.state.final_measurement) return not_applicable("the campaign goes on");
  const record::Final& final = *c.state.final_measurement;
  if (final.initial == final.best) return pass("the baseline stands");
  if (final.effects.empty())
    return fail("baseline and best were not measured in one session: " + final.evaluation.detail);
  const record::Effect& suite = final.effects.front();
  return pass(fmt::format("{:.3f}x in {} paired sessions over all target shapes", suite.ratio, suite.sessions));
}

RuleFinding accepted_by_project(const RuleContext& c) {
  if (!c.state.spec().extra.contains("acceptance_command")) return not_applicable("no acceptance_command is named");
  if (!c.state.final_measurement) return not_applicable("the campaign goes on");
  if (c.state.final_measurement->initial == c.state.final_measurement->best)
    return not_applicable("the baseline stands");
  const std::optional<std::int64_t>& code = c.state.final_measurement->evaluation.acceptance_exit_code;
  if (!code) return unknown("the acceptance_command was not run on the best");
  return unless(*code != 0 ? fmt::format("acceptance_command exited with {}", *code) : std::string(),
                "acceptance_command passes on the best");
}

constexpr Rule kLineageRules[] = {
    {62, "snapshot", Phase::kDecide, RuleScope::kRound, false, "Every round's tree is a content-addressed snapshot.",
     "snapshot digests", snapshot_kept},
    {64, "trend", Phase::kReport, RuleScope::kCampaign, false,
     "Every round has a trend row; accepted ones do not fall.", "paired ratios", trend_rises},
    {65, "append only", Phase::kAnalyze, RuleScope::kCampaign, true, "Logs grow and are never edited.", "files on disk",
     logs_append_only},
    {66, "linear chain", Phase::kAnalyze, RuleScope::kCampaign, false,
     "Each round starts from the last accepted one, and so does the worktree.", "incumbents, tree on disk",
     linear_chain},
    {67, "informed", Phase::kAnalyze, RuleScope::kRound, true,
     "A rollback has its cause, and the next hypothesis names the round it learned from.", "informed_by", informed},
    {68, "escalation", Phase::kAnalyze, RuleScope::kRound, true,
     "Rollbacks in a row: diagnose, profile again, inspect instructions, compare with the best known.", "escalations",
     escalated},
    {69, "stagnation review", Phase::kAnalyze, RuleScope::kRound, true,
     "A stagnation is answered by three directions of two categories not used of late.", "review", reviewed},
    {71, "commit", Phase::kDecide, RuleScope::kRound, false,
     "An accepted round is one commit; without it, not accepted.", "commit id", committed},
    {72, "integration", Phase::kDecide, RuleScope::kCampaign, true,
     "What was tried elsewhere is accepted after the integration gate.", "execution mode", integrated},
    {74, "final measurement", Phase::kReport, RuleScope::kCampaign, true,
     "Baseline and best are measured again in one paired session on all target shapes.", "final sessions",
     final_measured},
    {75, "project acceptance", Phase::kReport, RuleScope::kCampaign, true,
     "The project's own acceptance passes and the diff is clean.", "acceptance_command", accepted_by_project},
};

}  // namespace

std::span<const Rule> lineage_rules() { return kLineageRules; }

}  // namespace ridge::campaign
