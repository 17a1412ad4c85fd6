#include "campaign_exchange.h"

#include <fmt/format.h>

#include "say.h"
#include "service/exchange.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct ImportOptions {
  std::string directory, out;
};

std::string claimed(const record::ForeignCampaign::Round& round) {
  if (round.latency_us) return fmt::format("{:.3f} us", *round.latency_us);
  return round.tflops ? fmt::format("{:.3f} TFLOPS", *round.tflops) : std::string("-");
}

int run_import(const ImportOptions& options) {
  const Result<record::ForeignCampaign> campaign = service::import_record(options.directory, options.out);
  if (!campaign) return fail(campaign.error());
  if (globals().json) return print_json(*campaign);
  say("{} campaign, {} rounds; what its files claim, with no raw samples behind it:\n", campaign->layout,
      campaign->rounds.size());
  for (const record::ForeignCampaign::Round& round : campaign->rounds) {
    say("  {:3}  {:9} {:>16}  {}\n", round.round, round.status.empty() ? "?" : round.status, claimed(round),
        round.description);
  }
  for (const record::ForeignCampaign::Direction& one : campaign->directions) {
    say("  {}: {}{}\n", one.state, one.text, one.reason.empty() ? "" : " (" + one.reason + ")");
  }
  for (const record::ForeignCampaign::Profile& one : campaign->profiles) {
    say("  profile of round {} ({}){}\n", one.round, one.trigger,
        one.kernels.empty() ? "" : fmt::format(": most time in {}", one.kernels.front().name));
  }
  if (!campaign->costs.empty()) say("  {} phases with their time; --json has them\n", campaign->costs.size());
  for (const record::ForeignCampaign::Finding& one : campaign->findings) {
    say("{}: {}: {}\n", one.kind, one.path, one.what);
  }
  return kSuccess;
}

}  // namespace

void define_campaign_exchange(Command& group) {
  auto out = std::make_shared<service::ExportRequest>();
  group.subcommand("export", "Write a campaign in the layout of other tools, into a folder of its own")
      .positional("directory", out->directory, "Folder of the campaign")
      .option("--format turbo-view|atrex", out->format, "turbo-view or atrex")
      .option("--out DIR", out->out, "A new folder, or that of an earlier export, which is brought up to date")
      .example("ridge campaign export campaigns/gemm_cpu_xeon_20260101 --format turbo-view --out view",
               "state/<id>/run.json, logs/, rounds/; once more while the campaign runs, and an open view follows")
      .example("ridge campaign export campaigns/gemm_cpu_xeon_20260101 --format atrex --out workspace",
               "a git repository: the kernel, memory/v<N>.json, plans/")
      .exits({kSystem, {kHeld, "the folder is not empty and no earlier export of this campaign"}})
      .json("a message")
      .action([out] { return answer(service::export_record(*out)); });
  auto in = std::make_shared<ImportOptions>();
  group.subcommand("import", "Read a campaign of another tool: its rounds, and what is missing or contradictory")
      .positional("directory", in->directory, "Its folder, in either layout")
      .option("--out FILE", in->out, "Keep what was understood as a JSON file")
      .example("ridge campaign import other --out other.json", "its numbers are claims and decide nothing")
      .exits({kSystem})
      .json("the campaign as it was understood: rounds with their shapes, costs, directions, profiles and findings")
      .action([in] { return run_import(*in); });
}

}  // namespace ridge::cli
