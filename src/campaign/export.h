// A campaign in the layouts that other tools read. Rendered from the journal like every other file of a campaign, into
// a folder of its own; what those tools cannot hold (raw samples, gates, evidence) stays in the journal.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "campaign/export_memory.h"
#include "campaign/render.h"

namespace ridge::campaign {

enum class ExportFormat {
  kTurboView,  // state/<id>/run.json beside logs/ and rounds/, column names as that viewer looks for them
  kAtrex       // a git repository: the kernel at the top, memory/v<N>.json with v0 the baseline, plans/v<N>_plan.md
};
Result<ExportFormat> export_format(std::string_view name);  // turbo-view | atrex

struct Export {
  FileMap files;
  std::vector<ExportedVersion>
      versions;  // of the git repository that the files are in; none: they are in no repository
};
// kConflict for a campaign whose baseline is not measured yet: those layouts cannot say so.
Result<Export> render_export(const State& state, ExportFormat format);
// Writes it into a folder that must not exist or be empty, or brings an earlier export of the same campaign up to date:
// what has not changed is not written, and what other tools put beside it stays.
Status write_export(const std::filesystem::path& directory, const Export& exported);

}  // namespace ridge::campaign
