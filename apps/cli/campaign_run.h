// Running a campaign from the command line: the flags, and the summary at the end.
#pragma once

#include <filesystem>

#include "command.h"
#include "service/draft.h"

namespace ridge::cli {

// The flags --wait-for-quiet and --sign-key.
Command& add_run_options(Command& command, service::RunRequest& request);

// Runs or resumes the campaign in `directory` until it is done or paused, and prints the summary. Gives the exit code.
int run_and_conclude(const Context& context, const std::filesystem::path& directory,
                     const service::RunRequest& request = {});

// The last line of a paused campaign: the one command that goes on.
void say_how_to_go_on(const std::filesystem::path& directory);

// Drafts a campaign, shows it, asks for confirmation on a terminal unless `yes`, and runs it. Gives the exit code.
int optimize(const Context& context, service::DraftRequest request, bool yes);

}  // namespace ridge::cli
