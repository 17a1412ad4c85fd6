// Campaigns in the layouts of other tools: written, and read as what they claim.
#pragma once

#include <string>

#include "record/command_table.h"
#include "record/foreign.h"
#include "ridge/result.h"

namespace ridge::service {

struct ExportRequest {
  std::string directory, format = "turbo-view";  // or atrex
  std::string out;                               // a new folder, or that of an earlier export
};
Result<record::CommandAnswer> export_record(const ExportRequest& request);

// A campaign of another tool: its rounds, and what is missing or contradictory. Kept as JSON in `out` unless that is
// empty. Its numbers are claims and decide nothing.
Result<record::ForeignCampaign> import_record(const std::string& directory, const std::string& out);

}  // namespace ridge::service
