// Reads a campaign that other programs or people wrote (manifest.yaml, logs/, rounds/, state/run.json in any of the
// layouts in use, or a workspace whose memory/ holds one record per version) and says what is missing, malformed or
// contradictory. It never fails on what it finds: a foreign campaign is evidence to be judged, and files may be cut
// short, renamed, or full of surprises.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "record/foreign.h"
#include "ridge/result.h"

namespace ridge::campaign {

enum class LintKind { kMissing, kMalformed, kContradiction, kForbidden };
std::string_view to_string(LintKind kind);

struct LintFinding {
  LintKind kind = LintKind::kMissing;
  std::string path, what;
};

struct LintReport {
  std::int64_t files = 0, rounds = 0, accepted = 0;
  // Commands that an own campaign's manifest lacks: it began before `ridge` wrote them, and a confirmed manifest is not
  // changed.
  std::int64_t without_commands = 0;
  std::vector<LintFinding> findings;
  record::ForeignCampaign campaign;  // what was understood; its findings are not filled in
};

// An error only when `directory` is not a folder.
Result<LintReport> lint_foreign(const std::filesystem::path& directory);

// The same as one record, findings included. An error when nothing in the folder looks like a campaign of any layout.
Result<record::ForeignCampaign> import_foreign(const std::filesystem::path& directory);

}  // namespace ridge::campaign
