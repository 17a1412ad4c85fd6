#include <charconv>

#include "campaign/rules/findings.h"

namespace ridge::campaign {
namespace {

using namespace findings;

constexpr ConstructedRule kByConstruction[] = {
    {48, "noise", Phase::kDecide, "Small gains are decided by repeated paired sessions; the plain rule stands beside.",
     "`judge` computes the sequential test and the plain rule from the same sessions, and there is no other way to a "
     "decision; `replay` does so again."},
    {50, "closed round", Phase::kDecide, "A round is closed with decision, summary, snapshot, log and trend row.",
     "The journal refuses to close a round without its decision, and the files are rendered from that one record."},
    {63, "summary", Phase::kDecide, "Every round has a summary with the fixed sections.",
     "`render_round_summary` writes all of them for every round, and `verify` holds the file against it."},
    {70, "no early end", Phase::kTermination, "Stagnation and rollbacks never end a campaign.",
     "The report is reached only through `check_termination`, which knows T1 to T5 and a proposer without ideas."},
    {73, "termination block", Phase::kTermination, "Every condition is shown with its values before the report.",
     "`check_termination` answers all of its conditions whenever it answers one."},
};

std::vector<Rule> collect() {
  std::vector<Rule> all;
  for (const auto table : {target_rules(), baseline_rules(), analyze_rules(), optimize_rules(), validate_rules(),
                           transfer_rules(), lineage_rules()}) {
    all.insert(all.end(), table.begin(), table.end());
  }
  return all;
}

std::string waiver_of(const State& state, const Rule& rule) {
  const auto found = state.waivers.find(rule.number);
  return found == state.waivers.end() || !rule.waivable ? std::string() : found->second.reason;
}

const Round* last_closed(const State& state) {
  for (auto round = state.rounds.rbegin(); round != state.rounds.rend(); ++round) {
    if (round->closed()) return &*round;
  }
  return nullptr;
}

std::vector<record::RuleRow> joined(std::vector<record::RuleRow> a, std::vector<record::RuleRow> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  std::stable_sort(a.begin(), a.end(), [](const auto& x, const auto& y) { return x.rule < y.rule; });
  return a;
}

bool asked_before_rounds(const Rule& rule) {
  return rule.scope == RuleScope::kCampaign && (rule.phase <= Phase::kBaseline || rule.phase == Phase::kAnalyze);
}

// A round that was rolled back has paid for what was wrong with it; what remains is that it was closed as it should be.
bool concerns(const Round& round, const Rule& rule) {
  return rule.scope == RuleScope::kRound && (round.committed || rule.phase > Phase::kValidate);
}

// The rows of a first round that was rolled back: what it broke does not stand for the campaign.
std::vector<record::RuleRow> idle_rows(std::vector<record::RuleRow> rows) {
  for (record::RuleRow& row : rows) {
    if (row.verdict != RuleVerdict::kFail && row.verdict != RuleVerdict::kUnknown) continue;
    row.verdict = RuleVerdict::kNotApplicable;
    row.evidence = "only rounds that were rolled back: " + row.evidence;
  }
  return rows;
}

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> all = collect();
  return all;
}

std::span<const ConstructedRule> rules_by_construction() { return kByConstruction; }

const Rule* find_rule(std::string_view text) {
  if (!text.empty() && (text.front() == 'R' || text.front() == 'r')) {
    if (const Rule* numbered = find_rule(text.substr(1))) return numbered;
  }
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool numeric = error == std::errc() && end == text.data() + text.size();
  for (const Rule& rule : rules()) {
    if (numeric ? rule.number == number : rule.name == text) return &rule;
  }
  return nullptr;
}

std::vector<record::RuleRow> ask_each(const RuleContext& context, const std::function<bool(const Rule&)>& wanted) {
  std::vector<record::RuleRow> rows;
  for (const Rule& rule : rules()) {
    if (!wanted(rule)) continue;
    RuleFinding found = unknown("no round was closed yet");
    if (rule.scope == RuleScope::kRound && context.round == nullptr)
      found = not_applicable("there is no round yet");
    else
      found = rule.check(context);
    rows.push_back(
        {rule.number, rule.name, rule.phase, found.verdict, std::move(found.evidence), waiver_of(context.state, rule)});
  }
  return rows;
}

std::vector<record::RuleRow> judge_all(const RuleContext& context) {
  RuleContext full = context;
  if (full.round == nullptr) full.round = last_closed(context.state);
  return ask_each(full, [](const Rule&) { return true; });
}

std::vector<record::RuleRow> judge_before_round(const RuleContext& context) {
  RuleContext last = context;
  last.round = last_closed(context.state);
  return ask_each(last, [&](const Rule& rule) {
    return asked_before_rounds(rule) || (last.round != nullptr && concerns(*last.round, rule));
  });
}

std::vector<record::RuleRow> judge_for_decision(const RuleContext& context) {
  return ask_each(context,
                  [](const Rule& rule) { return rule.scope == RuleScope::kRound && rule.phase <= Phase::kValidate; });
}

std::vector<record::RuleRow> judge_before_report(const RuleContext& context) {
  std::vector<record::RuleRow> rows = ask_each({context.state, nullptr, context.directory},
                                               [](const Rule& rule) { return rule.scope == RuleScope::kCampaign; });
  // Of the rounds: the last one's verdict, or that of the first one that blocks.
  std::vector<record::RuleRow> of_rounds;
  const auto round_rule = [](const Rule& rule) { return rule.scope == RuleScope::kRound; };
  for (const Round& round : context.state.rounds) {
    if (!round.closed()) continue;
    std::vector<record::RuleRow> found = ask_each({context.state, &round, context.directory}, round_rule);
    if (of_rounds.empty()) of_rounds = round.committed ? found : idle_rows(found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!concerns(round, *find_rule(std::to_string(found[i].rule)))) continue;
      if (blocking({of_rounds[i]}).empty()) of_rounds[i] = found[i];
      if (!blocking({found[i]}).empty())
        of_rounds[i].evidence = fmt::format("round {}: {}", round.number, found[i].evidence);
    }
  }
  if (of_rounds.empty()) of_rounds = ask_each(context, round_rule);
  return joined(std::move(rows), std::move(of_rounds));
}

bool rules_in_force(const State& state) { return state.prepared && state.prepared->frozen.contains("rules"); }

std::vector<record::RuleRow> blocking(const std::vector<record::RuleRow>& rows) {
  std::vector<record::RuleRow> blocked;
  for (const record::RuleRow& row : rows) {
    const bool holds = row.verdict == RuleVerdict::kPass || row.verdict == RuleVerdict::kNotApplicable;
    if (!holds && row.waived.empty()) blocked.push_back(row);
  }
  return blocked;
}

std::string blocking_text(const std::vector<record::RuleRow>& blocked) {
  if (blocked.empty()) return {};
  const record::RuleRow& first = blocked.front();
  std::string text = fmt::format("rule {} ({}) {}: {}", first.rule, first.name,
                                 first.verdict == RuleVerdict::kFail ? "fails" : "cannot be answered", first.evidence);
  if (blocked.size() > 1) text += fmt::format("; and {} more", blocked.size() - 1);
  return text;
}

std::string rules_markdown() {
  std::string text =
      "# The rules of a campaign\n\n"
      "Made from the registry in `src/campaign/rules/` by `ridge campaign rules --markdown`; a test keeps this page "
      "equal to "
      "it.\n\nEvery rule gives one of four verdicts: pass, fail, not applicable, unknown. Fail and unknown block: "
      "before the "
      "first\nround, before the next hypothesis, in the decision, or before the report. `ridge campaign rules DIR "
      "[--round N]`\n"
      "shows them with their evidence. A rule marked *can be waived* lets the campaign go on after\n"
      "`ridge campaign waive DIR RULE --reason '...'`; the reason stays in the journal and is shown in the report.\n";
  Phase phase = Phase::kPaused;
  std::vector<Rule> ordered(rules().begin(), rules().end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const Rule& a, const Rule& b) { return a.phase < b.phase; });
  for (const Rule& rule : ordered) {
    if (rule.phase != phase) {
      text += fmt::format("\n## {}\n\n| | Rule | What must hold | Looks at | Of |\n|---|---|---|---|---|\n",
                          record::name_of(rule.phase));
      phase = rule.phase;
    }
    text +=
        fmt::format("| {} | {}{} | {} | {} | {} |\n", rule.number, rule.name, rule.waivable ? " (can be waived)" : "",
                    rule.says, rule.inputs, rule.scope == RuleScope::kRound ? "round" : "campaign");
  }
  text +=
      "\n## True by construction\n\nThese have no check: it would search what the engine itself wrote. Their numbers "
      "are kept.\n\n"
      "| | Rule | What holds | Why it cannot fail |\n|---|---|---|---|\n";
  for (const ConstructedRule& rule : kByConstruction) {
    text += fmt::format("| {} | {} | {} | {} |\n", rule.number, rule.name, rule.says, rule.because);
  }
  return text;
}

}  // namespace ridge::campaign
