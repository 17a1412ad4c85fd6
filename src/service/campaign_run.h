// Running a campaign: the engine with the worker, the proposer and the rules of this machine around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/campaign.h"
#include "propose/proposer.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct RunRequest {
  std::string wait_for_quiet = "30s";  // in all; not charged to the budget
  std::string sign_key;                // file of the private key; empty: RIDGE_SIGN_KEY, or where it was before
  std::string proposer;                // of this run; empty: the campaign's own
  std::optional<std::int64_t> rounds;  // pause when so many more are closed
  bool no_past = false;                // what other campaigns looked at does not guide the proposer
  bool no_replica = false;             // the final comparison is not made on another device, whatever the manifest says
};

struct Ran {
  campaign::State state;
  campaign::RunResult result;
};

// Runs or resumes a confirmed campaign until it is done, paused or stopped (Context::stops), and writes its report.
// Long: minutes to hours. on_progress tells every step, on_round every closed round, and progress.json both to other
// processes. An error loses nothing; running again goes on.
Result<Ran> run_campaign(const Context& context, const std::filesystem::path& directory,
                         const RunRequest& request = {});

// The same with the rounds of `proposer`. `expected`: where the campaign must stand, once it is locked.
Result<Ran> drive_campaign(const Context& context, const std::filesystem::path& directory, const RunRequest& request,
                           propose::Proposer& proposer, std::optional<campaign::Standpoint> expected = {});

// What the user wants of the commits and of the kernel beside its speed, into the manifest: the branch (empty: its own)
// and constraints in words.
Status add_wishes(record::CampaignSpec& spec, const std::string& branch, const std::vector<std::string>& constraints);

// After the end: the command that takes the kernel that was accepted, or that tries on.
std::string next_command(const std::filesystem::path& directory, const campaign::State& state);

}  // namespace ridge::service
