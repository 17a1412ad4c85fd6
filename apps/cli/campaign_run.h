// Running a campaign from the command line: progress, a line per round, the summary at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/campaign.h"
#include "command.h"
#include "propose/proposer.h"
#include "ridge/result.h"

namespace ridge::cli {

struct RunOptions {
  std::string wait_for_quiet = "30s";  // in all; not charged to the budget
  std::string sign_key;                // file of the private key; empty: RIDGE_SIGN_KEY, or where it was before
  std::string proposer;                // of this run; empty: the campaign's own
  std::optional<std::int64_t> rounds;  // pause when so many more are closed
};
// The flags --wait-for-quiet and --sign-key.
Command& add_run_options(Command& command, RunOptions& options);

// What the user wants of the commits and of the kernel beside its speed, into the manifest: the branch (empty: its own)
// and constraints in words.
Status add_wishes(record::CampaignSpec& spec, const std::string& branch, const std::vector<std::string>& constraints);

struct Ran {
  campaign::State state;
  campaign::RunResult result;
};
// Lets the engine do what is due with the rounds of `proposer`, shows its progress, and writes the report.
// `expected`: where the campaign must stand, once it is locked.
Result<Ran> drive_campaign(const std::filesystem::path& directory, const RunOptions& options,
                           propose::Proposer& proposer, std::optional<campaign::Standpoint> expected = {});

// Runs or resumes the campaign in `directory` until it is done or paused, writes its report and prints the summary.
// Gives the exit code.
int run_campaign(const std::filesystem::path& directory, const RunOptions& options = {});

// The last line of a paused campaign: the one command that goes on.
void say_how_to_go_on(const std::filesystem::path& directory);

// Starts a campaign of the shipped plain matrix multiplication on this CPU, as `ridge optimize gemm --yes` does. Gives
// the exit code.
int run_demo_campaign(const std::filesystem::path& directory, const std::string& budget, bool use_git,
                      const RunOptions& options);

// The shipped data: RIDGE_DATA_DIR, <prefix>/share/ridge, or the source tree this was built from.
std::filesystem::path data_directory();
// Folders of the user's own knowledge pages: RIDGE_KNOWLEDGE_PATH, with colons between them.
std::vector<std::filesystem::path> own_knowledge();

}  // namespace ridge::cli
