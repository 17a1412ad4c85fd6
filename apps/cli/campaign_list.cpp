#include "campaign_list.h"

#include <fmt/format.h>

#include "say.h"
#include "service/campaigns.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

// "2026-11-21T07:30:12Z" -> "2026-11-21 07:30"
std::string minute(const std::string& time) {
  return time.size() < 16 ? time : time.substr(0, 10) + " " + time.substr(11, 5);
}

int list(const std::string& folder) {
  const Result<std::vector<record::CampaignRow>> rows = service::campaigns_in(folder);
  if (!rows) return fail(rows.error());
  if (globals().json) return print_json(*rows);
  if (rows->empty()) {
    say("No campaign in {}; start one with: ridge optimize gemm\n", folder);
    return kSuccess;
  }
  std::vector<std::vector<std::string>> cells;
  for (const record::CampaignRow& row : *rows) {
    const std::string speed = row.speedup ? fmt::format("{:.3f}x", *row.speedup) : std::string("-");
    cells.push_back({row.name, row.state, speed, std::to_string(row.accepted), std::to_string(row.rounds),
                     row.problem.empty() ? minute(row.updated) : row.problem});
  }
  say("{}", table({"name", "state", "speed-up", "accepted", "rounds", "last change (UTC)"}, cells));
  return kSuccess;
}

struct KernelOptions {
  std::string directory, out;
};

int export_kernel(const KernelOptions& options) {
  const Result<record::KernelFile> kernel = service::export_campaign_kernel(options.directory, options.out);
  if (!kernel) return fail(kernel.error());
  if (globals().json) return print_json(*kernel);
  if (options.out.empty()) {
    say("{}", kernel->files.front().text);
    for (std::size_t i = 1; i < kernel->files.size(); ++i)
      say(stderr, "it includes {}; --out FILE writes that one too\n", kernel->files[i].path);
    return kSuccess;
  }
  say("{}: the kernel of round {}, {:.3f}x the baseline\n", options.out, kernel->round, kernel->speedup);
  if (!kernel->compile.empty()) say("compiled by: {}\n", kernel->compile);
  return kSuccess;
}

}  // namespace

void define_campaign_list(Command& group) {
  auto folder = std::make_shared<std::string>("campaigns");
  group.subcommand("list", "The campaigns in a folder: state, speed-up, rounds, last change")
      .positional("folder", *folder, "Folder that holds campaigns (default: campaigns)", false)
      .example("ridge campaign list", "those in ./campaigns, the latest first")
      .example("ridge campaign list fast_gemm/campaigns --json", "of a workspace, for programs")
      .exits({kSystem})
      .json("a list of campaigns with state, operator, speed-up, rounds and last change")
      .action([folder] { return list(*folder); });
  auto kernel = std::make_shared<KernelOptions>();
  group
      .subcommand("export-kernel",
                  "The accepted kernel: its source with its configuration, how to compile it, where it is from")
      .positional("directory", kernel->directory, "Folder of the campaign")
      .option("-o,--out FILE", kernel->out,
              "A new file; other sources of the kernel are written beside it (default: print it)")
      .example("ridge campaign export-kernel campaigns/gemm_cpu_xeon_20260101 --out fast_gemm.cpp",
               "exit code 7 while no round is accepted")
      .exits({kSystem, {kHeld, "no round is accepted yet, or the file exists already"}})
      .json("the sources, the compile line, the configuration, and which round they are from")
      .action([kernel] { return export_kernel(*kernel); });
}

}  // namespace ridge::cli
