// Campaigns as they lie in folders: where they stand, and what a person asks of one that may be running elsewhere.
//
//   draft_campaign (draft.h) -> confirm_draft -> run_campaign (campaign_run.h) or propose_round (campaign_propose.h)
//
// Everything here takes milliseconds and needs no Context: nothing is measured. A folder that holds no campaign, or a
// journal that is cut or forged, is an error that says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/state.h"
#include "record/command_table.h"
#include "record/listing.h"
#include "report/report.h"
#include "ridge/result.h"

namespace ridge::service {

// Whether a folder holds the journal of a campaign.
bool is_campaign(const std::filesystem::path& folder);
// running, draft, finished, paused or stopped, of a campaign whose journal adds up to `state`.
std::string state_of_campaign(const std::filesystem::path& directory, const campaign::State& state);

// The report of the journal as it is now, with what a process does at the moment in Report::progress. A progress.json
// that cannot be read is left out: the journal alone is the truth.
Result<report::Model> campaign_status(const std::filesystem::path& directory);

// The campaigns in a folder, the one that changed last first; one that cannot be read has its reason in its row.
Result<std::vector<record::CampaignRow>> campaigns_in(const std::filesystem::path& folder);

// Accepts manifest.yaml as it is on disk. `by`: "ridge campaign confirm", "prompt", the name of an agent's tool.
Result<record::CommandAnswer> confirm_draft(const std::filesystem::path& directory, const std::string& by);

// Wishes that a running engine reads before its next measurement; the answer's `next` is the command that shows it.
Result<record::CommandAnswer> stop_campaign(const std::filesystem::path& directory);
Result<record::CommandAnswer> stop_campaign_after(const std::filesystem::path& directory, std::int64_t rounds);
Result<record::CommandAnswer> pause_campaign(const std::filesystem::path& directory);

// More attempts or more time, also for a campaign that has ended.
struct ExtendRequest {
  std::string directory, budget;               // "10m" to add; empty: none
  std::optional<std::int64_t> max_iterations;  // the new limit
};
Result<record::CommandAnswer> extend_campaign(const ExtendRequest& request);

// Writes the report again and gives what it is drawn from.
Result<report::Model> write_report(const std::filesystem::path& directory);

// The accepted kernel; written to `out` and beside it unless that is empty. Nothing is written over.
Result<record::KernelFile> export_campaign_kernel(const std::filesystem::path& directory, const std::string& out);

// The accepted rounds of a project, as commits on a branch of their own in its repository.
struct HandBackRequest {
  std::string directory, repository;  // empty: the project that it came from
  bool at_start = false;
};
struct HandedBack {
  std::vector<std::string> commits;
  record::CommandAnswer answer;
};
Result<HandedBack> hand_back_campaign(const HandBackRequest& request);

// Lets a campaign go on although a rule blocks.
Result<record::CommandAnswer> waive_campaign_rule(const std::filesystem::path& directory, const std::string& rule,
                                                  const std::string& reason, const std::string& by);

// Every written rule with its verdict; of one round, or of the last one closed.
Result<record::RuleTable> campaign_rules(const std::filesystem::path& directory, std::optional<std::int64_t> round);

}  // namespace ridge::service
