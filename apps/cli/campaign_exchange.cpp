#include "campaign_exchange.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "campaign/campaign.h"
#include "campaign/export.h"
#include "campaign/foreign.h"
#include "record/json.h"
#include "say.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct ExportOptions {
  std::string directory, format = "turbo-view", out;
};

int run_export(const ExportOptions& options) {
  const Result<campaign::ExportFormat> format = campaign::export_format(options.format);
  if (!format) return fail(format.error());
  if (options.out.empty()) return fail(with_hint(invalid("no folder to write to"), "name a new one with --out"));
  const Result<campaign::State> state = campaign::load_campaign(options.directory);
  if (!state) return fail(state.error());
  const Result<campaign::Export> exported = campaign::render_export(*state, *format);
  if (!exported) return fail(exported.error());
  if (const Status written = campaign::write_export(options.out, *exported); !written) return fail(written.error());
  return answer(fmt::format("{} files in {}, {} rounds; the raw samples stay in {}", exported->files.size(),
                            options.out, state->rounds_closed() + 1, options.directory));
}

struct ImportOptions {
  std::string directory, out;
};

std::string claimed(const record::ForeignCampaign::Round& round) {
  if (round.latency_us) return fmt::format("{:.3f} us", *round.latency_us);
  return round.tflops ? fmt::format("{:.3f} TFLOPS", *round.tflops) : std::string("-");
}

int run_import(const ImportOptions& options) {
  const Result<record::ForeignCampaign> campaign = campaign::import_foreign(options.directory);
  if (!campaign) return fail(campaign.error());
  const std::string text = record::to_pretty(*campaign) + "\n";
  if (!options.out.empty()) {
    if (const Status written = write_file_durably(options.out, text); !written) return fail(written.error());
  }
  if (globals().json) {
    say("{}", text);
    return kSuccess;
  }
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
  auto out = std::make_shared<ExportOptions>();
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
      .action([out] { return run_export(*out); });
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
