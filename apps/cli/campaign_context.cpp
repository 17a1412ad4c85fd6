#include "campaign_context.h"

#include <fmt/format.h>

#include "context.h"
#include "say.h"
#include "service/campaign_context.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

void print(const record::ProposalRequest& told) {
  say("Round {} of {}\n\nIncumbent: {} ({})\n", told.round, told.spec.id, told.incumbent.name, told.incumbent.id());
  for (const record::RooflinePoint& point : told.roofline)
    say("  {:<40} {:.1f} % of what {} allows\n", point.label, 100 * point.fraction, point.bound);
  say("\nTunables\n");
  for (const record::Tunable& one : told.space.tunables) {
    const auto set = told.incumbent.defines.find(one.name);
    say("  {:<16} {:<8} of {}  {}\n", one.name, set == told.incumbent.defines.end() ? one.default_value : set->second,
        fmt::join(one.values, ", "), one.title);
  }
  if (!told.history.empty()) say("\nRounds so far\n");
  for (const record::RoundSummary& round : told.history)
    say("  {:>3}  {:<13} {}: {}\n", round.round, record::name_of(round.state), round.hypothesis.title, round.reason);
  if (!told.findings.empty()) say("\nFindings\n");
  for (const std::string& finding : told.findings) say("  {}\n", finding);
  if (!told.knowledge.empty()) say("\nKnown of such kernels\n");
  for (const record::KnowledgeEntry& entry : told.knowledge) say("  {}: {}\n", entry.id, entry.title);
}

int show_context(const Context& context, const std::string& directory) {
  const Result<record::ProposalRequest> told = service::context_of_campaign(context, directory);
  if (!told) return fail(told.error());
  if (globals().json) return print_json(*told, kSuccess);
  print(*told);
  return kSuccess;
}

}  // namespace

void define_campaign_context(Command& group) {
  auto directory = std::make_shared<std::string>();
  group.subcommand("context", "What a proposer of the next round is told")
      .positional("directory", *directory, "Folder of the campaign")
      .example("ridge campaign context campaigns/gemm_cpu_xeon_20260101",
               "the best kernel, its tunables, what was tried, and what is known of such kernels")
      .example("ridge campaign context campaigns/gemm_cpu_xeon_20260101 --json",
               "all of it, as a program behind --proposer command: gets it")
      .exits({{kHeld, "its baseline is not measured, or it has ended"}})
      .json("the request to a proposer, of docs/schema/proposal_request.v1.json")
      .action([directory](const Context& context) { return show_context(context, *directory); });
}

}  // namespace ridge::cli
