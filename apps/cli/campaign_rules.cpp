#include "campaign_rules.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/json.h"
#include "campaign/rules/rule.h"
#include "record/listing.h"
#include "record/published.h"
#include "say.h"
#include "service/campaigns.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct RulesOptions {
  std::string directory;
  std::optional<std::int64_t> round;
  bool markdown = false;
};

void print(const std::vector<record::RuleRow>& rows) {
  std::string_view phase;
  for (const record::RuleRow& row : rows) {
    if (record::name_of(row.phase) != phase) say("{}\n", phase = record::name_of(row.phase));
    say("  {:>2}  {:<15} {:<24} {}{}\n", row.rule, record::name_of(row.verdict), row.name, row.evidence,
        row.waived.empty() ? "" : "  [waived: " + row.waived + "]");
  }
}

int show_rules(const RulesOptions& options) {
  if (options.markdown || options.directory.empty()) {
    if (globals().json)
      return fail(with_hint(invalid("--json is about the rules of a campaign"), "name the folder of one"));
    say("{}", campaign::rules_markdown());
    return kSuccess;
  }
  const Result<record::RuleTable> table = service::campaign_rules(options.directory, options.round);
  if (!table) return fail(table.error());
  const int code = table->ok ? kSuccess : kNo;
  if (globals().json) return print_json(*table, code);
  print(table->rules);
  say("{}\n", table->ok ? std::string("No rule blocks.")
                        : "Blocks: " + campaign::blocking_text(campaign::blocking(table->rules)));
  return code;
}

int show_schema(const std::string& name) {
  for (const record::PublishedSchema& one : record::published_schemas()) {
    if (one.name != name) continue;
    say("{}\n", pretty_json(one.schema()));
    return kSuccess;
  }
  std::string known;
  for (const record::PublishedSchema& one : record::published_schemas()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  return fail(with_hint(invalid("there is no schema \"{}\"", name), "known are " + known));
}

struct WaiveOptions {
  std::string directory, rule, reason;
};

int waive(const WaiveOptions& options) {
  const char* user = std::getenv("USER");
  return answer(service::waive_campaign_rule(options.directory, options.rule, options.reason,
                                             user != nullptr ? user : "unknown"));
}

}  // namespace

void define_campaign_rules(Command& group) {
  auto rules = std::make_shared<RulesOptions>();
  group.subcommand("rules", "Every written rule with its verdict and evidence")
      .positional("directory", rules->directory, "Folder of the campaign (default: print the rules themselves)", false)
      .option("--round", rules->round, "Of this round (default: the last one closed)")
      .flag("--markdown", rules->markdown, "Print the rules themselves, as docs/rules.md")
      .example("ridge campaign rules campaigns/gemm_cpu_xeon_20260101", "exit code 1 when a rule blocks")
      .example("ridge campaign rules campaigns/gemm_cpu_xeon_20260101 --round 3 --json", "one round, for programs")
      .exits({{kNo, "a rule blocks"}, kSystem})
      .json("each rule with its verdict and evidence, and whether one blocks")
      .action([rules] { return show_rules(*rules); });
  auto schema = std::make_shared<std::string>();
  group.subcommand("schema", "The JSON Schema of what other programs exchange with a campaign")
      .positional("name", *schema, "proposal_request or agent_answer")
      .example("ridge campaign schema agent_answer", "as docs/schema/agent_answer.v1.json")
      .exits({})
      .json("the schema (also without the flag)")
      .action([schema] { return show_schema(*schema); });
  auto options = std::make_shared<WaiveOptions>();
  group.subcommand("waive", "Let a campaign go on although a rule blocks; needs a reason")
      .positional("directory", options->directory, "Folder of the campaign")
      .positional("rule", options->rule, "Its number or name")
      .option("--reason", options->reason, "Why; stays in the journal and in the report")
      .example("ridge campaign waive campaigns/gemm_cpu_xeon_20260101 3 --reason 'renamed by a firmware update'",
               "only rules that do not make a result true")
      .exits({kSystem, {kHeld, "the rule may not be waived, or another process runs the campaign"}})
      .json("a message and the command to run next")
      .action([options] { return waive(*options); });
}

}  // namespace ridge::cli
