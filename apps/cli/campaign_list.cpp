#include "campaign_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/kernel_export.h"
#include "record/json.h"
#include "record/listing.h"
#include "say.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

std::string state_word(const fs::path& directory, const campaign::State& state) {
  if (campaign::lock_holder(directory).pid != 0) return "running";
  if (!state.confirmed) return "draft";
  if (state.reported) return "finished";
  return state.paused ? "paused" : "stopped";  // by a crash or a kill
}

record::CampaignRow row_of(const fs::path& directory) {
  record::CampaignRow row;
  row.name = directory.filename().string();
  row.directory = directory.string();
  const Result<campaign::State> state = campaign::load_campaign(directory);
  if (!state) {
    row.state = "unreadable";
    row.problem = state.error().message;
    return row;
  }
  row.state = state_word(directory, *state);
  row.op = state->spec().op;
  row.backend = state->spec().backend;
  row.gpu = state->spec().gpu;
  row.rounds = state->rounds_closed();
  row.accepted = std::count_if(state->rounds.begin(), state->rounds.end(),
                               [](const campaign::Round& round) { return round.committed.has_value(); });
  if (state->baseline_committed) row.speedup = campaign::speedup_of(*state);
  row.updated = state->updated_at;
  return row;
}

// The campaigns in a folder, the one that changed last first.
Result<std::vector<record::CampaignRow>> rows_in(const fs::path& folder) {
  std::error_code error;
  std::vector<record::CampaignRow> rows;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (fs::exists(entry.path() / campaign::kJournalFile, ignored)) rows.push_back(row_of(entry.path()));
  }
  if (error) {
    return with_hint(make_error(ErrorCode::kNotFound, "cannot list {}: {}", folder.string(), error.message()),
                     "name a folder that holds campaigns; `ridge optimize OP` makes ./campaigns");
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.updated != b.updated ? a.updated > b.updated : a.name < b.name;
  });
  return rows;
}

// "2026-11-21T07:30:12Z" -> "2026-11-21 07:30"
std::string minute(const std::string& time) {
  return time.size() < 16 ? time : time.substr(0, 10) + " " + time.substr(11, 5);
}

int list(const std::string& folder) {
  const Result<std::vector<record::CampaignRow>> rows = rows_in(folder);
  if (!rows) return fail(rows.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(*rows));
    return kSuccess;
  }
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

Status write_kernel(const campaign::KernelExport& kernel, const fs::path& out) {
  std::error_code ignored;
  for (std::size_t i = 0; i < kernel.files.size(); ++i) {
    const fs::path path = i == 0 ? out : out.parent_path() / kernel.files[i].path;
    if (fs::exists(path, ignored)) {
      return with_hint(make_error(ErrorCode::kConflict, "{} exists already", path.string()), "name another with --out");
    }
  }
  for (std::size_t i = 0; i < kernel.files.size(); ++i) {
    const fs::path path = i == 0 ? out : out.parent_path() / kernel.files[i].path;
    RIDGE_CHECK_OK(write_file_durably(path, kernel.files[i].text));
  }
  return ok_status();
}

record::KernelFile summary_of(const campaign::KernelExport& kernel, const std::string& out) {
  record::KernelFile summary;
  summary.files = kernel.files;
  summary.out = out;
  summary.compile = kernel.compile;
  summary.configuration = kernel.configuration;
  summary.round = kernel.round;
  summary.speedup = kernel.speedup;
  summary.candidate = kernel.candidate;
  return summary;
}

int export_kernel(const KernelOptions& options) {
  const Result<campaign::State> state = campaign::load_campaign(options.directory);
  if (!state) return fail(state.error());
  const Result<campaign::KernelExport> kernel = campaign::export_kernel(*state);
  if (!kernel) return fail(kernel.error());
  if (!options.out.empty()) {
    if (const Status written = write_kernel(*kernel, options.out); !written) return fail(written.error());
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(summary_of(*kernel, options.out)));
  } else if (options.out.empty()) {
    say("{}", kernel->files.front().text);
    for (std::size_t i = 1; i < kernel->files.size(); ++i)
      say(stderr, "it includes {}; --out FILE writes that one too\n", kernel->files[i].path);
  } else {
    say("{}: the kernel of round {}, {:.3f}x the baseline\n", options.out, kernel->round, kernel->speedup);
    if (!kernel->compile.empty()) say("compiled by: {}\n", kernel->compile);
  }
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
