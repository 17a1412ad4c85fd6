// A campaign in the layouts that other tools read. Rendered from the journal like every other file of a campaign, into
// a folder of its own; what those tools cannot hold (raw samples, gates, evidence) stays in the journal.
#pragma once

#include <filesystem>
#include <string_view>

#include "campaign/render.h"

namespace ridge::campaign {

enum class ExportFormat {
  kTurboView,  // state/<id>/run.json beside logs/ and rounds/, column names as that viewer looks for them
  kAtrex       // the kernel at the top, memory/v<N>.json with v0 the baseline, plans/v<N>_plan.md
};
Result<ExportFormat> export_format(std::string_view name);  // turbo-view | atrex

// The files; kConflict for a campaign whose baseline is not measured yet: those layouts cannot say so.
Result<FileMap> render_export(const State& state, ExportFormat format);
// Writes them into a folder that must not exist or be empty.
Status write_export(const std::filesystem::path& directory, const FileMap& files);

}  // namespace ridge::campaign
