// The written rules of a campaign, one object each: where it is asked, what it looks at, and what it finds. Pure
// functions of the journal's State (two also look at the campaign's folder), so that they can be asked again.
//
// A rule that fails or cannot be answered blocks: before the first round, before a hypothesis, in the decision, or
// before the report. A waiver lets the campaign go on; its reason stays in the journal and in the report. What makes a
// result true (the gates of the decision) cannot be waived.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "campaign/state.h"

namespace ridge::campaign {

struct RuleContext {
  const State& state;
  const Round* round = nullptr;                      // for the rules of a round
  const std::filesystem::path* directory = nullptr;  // for the two that look at the folder
};

struct RuleFinding {
  record::RuleVerdict verdict = record::RuleVerdict::kUnknown;
  std::string evidence;
};

enum class RuleScope { kCampaign, kRound };

struct Rule {
  int number;  // 1..75, the order in which a campaign meets them; those that are no check are missing
  const char* name;
  record::Phase phase;
  RuleScope scope;
  bool waivable;
  const char* says;    // what must hold
  const char* inputs;  // what the check looks at
  RuleFinding (*check)(const RuleContext& context);
};

std::span<const Rule> rules();

// A rule that no run of the engine can break: a check of it would read again what the engine itself wrote.
struct ConstructedRule {
  int number;
  const char* name;
  record::Phase phase;
  const char* says;
  const char* because;
};
std::span<const ConstructedRule> rules_by_construction();
// By number ("28", "R28") or name; null when there is none.
const Rule* find_rule(std::string_view text);

// Verdicts of the rules that `wanted` selects, with waivers entered.
std::vector<record::RuleRow> ask_each(const RuleContext& context, const std::function<bool(const Rule&)>& wanted);
// All of them: the campaign's, and those of one round (the last closed one when `round` is null and there is one).
std::vector<record::RuleRow> judge_all(const RuleContext& context);

// What must hold before a hypothesis is asked for: the campaign's rules up to BASELINE, the lineage, and everything
// about the round that was closed last.
std::vector<record::RuleRow> judge_before_round(const RuleContext& context);
// What the decision of the open round rests on beside its gates.
std::vector<record::RuleRow> judge_for_decision(const RuleContext& context);
// What must hold before the report: everything.
std::vector<record::RuleRow> judge_before_report(const RuleContext& context);

// Whether the campaign was prepared under these rules; a journal from before them is read as it was written.
bool rules_in_force(const State& state);

// Rows that fail or are unknown and are not waived.
std::vector<record::RuleRow> blocking(const std::vector<record::RuleRow>& rows);
// "rule 28 (one change) fails: ..." for the first, and how many more.
std::string blocking_text(const std::vector<record::RuleRow>& blocked);

// docs/rules.md
std::string rules_markdown();

// The tables, one file each.
std::span<const Rule> target_rules();    // 1-12
std::span<const Rule> baseline_rules();  // 13-20
std::span<const Rule> analyze_rules();   // 21-27
std::span<const Rule> optimize_rules();  // 28-33
std::span<const Rule> validate_rules();  // 34-51
std::span<const Rule> transfer_rules();  // 52-61
std::span<const Rule> lineage_rules();   // 62-75

}  // namespace ridge::campaign
