// Gives the accepted rounds of a project's campaign back to the repository they came from: one commit per round on a
// branch of its own, made in a worktree of its own. The user's checkout, index and branch are not touched.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "campaign/state.h"
#include "execute/git.h"

namespace ridge::campaign {

struct HandBack {
  std::string branch, base;          // base: the commit the branch starts from
  std::vector<std::string> commits;  // one per accepted round, oldest first
};

// `repository`: the top of the user's repository; `prefix`: the project's folder inside it, empty for the top itself.
// Refused, with the way out, when a merge is under way, the branch exists already, or the files that the campaign
// changed are no longer what it started from.
//
// Of a campaign in workspace mode the project's folder is where the commit that was extracted has it, whatever `prefix`
// is. The branch starts at HEAD if that folder is still what was extracted there, and is refused otherwise; `at_start`:
// it starts at the commit that was extracted, whatever HEAD is.
Result<HandBack> hand_back(const std::filesystem::path& directory, const State& state, execute::Git& repository,
                           const std::filesystem::path& prefix, bool at_start = false);

// The folder at or above `path` that holds .git; kNotFound when there is none.
Result<std::filesystem::path> repository_above(const std::filesystem::path& path);

}  // namespace ridge::campaign
