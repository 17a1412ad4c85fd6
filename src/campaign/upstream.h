// The workspace mode of a project's campaign: the project's folder as one commit of its repository has it, in the
// campaign's folder `project/`. Nothing that happens to the repository or the user's checkout meanwhile reaches it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "execute/git.h"
#include "project/project.h"
#include "record/campaign.h"

namespace ridge::campaign {

inline constexpr const char* kProjectFolder = "project";  // of the campaign

struct Upstream {
  std::filesystem::path repository;    // its top
  std::string folder;                  // of the project inside it; empty: the top
  std::string commit;                  // that the files are of
  std::string digest;                  // of all files of that folder
  std::vector<std::string> extracted;  // what candidates are built in; empty: the whole folder
};

// The commit that HEAD names and the project inside it. Refused, with the way out, where there is no repository or no
// commit, and where files of the project are not committed. The digest is not known yet.
Result<Upstream> find_upstream(const project::Project& project);

// The project's folder of that commit in `into`, written there, and its digest in `upstream`: what a manifest then
// binds. Errors name what of project.kernel and project.extract the commit lacks.
Result<project::Project> extract_first(Upstream& upstream, const std::filesystem::path& into);
// The same of a manifest, written where it is missing. Files with another digest are refused, and so is a manifest
// without one.
Result<project::Project> extract(const Upstream& upstream, const std::filesystem::path& into);

// Keys of the manifest, and back; nothing for a campaign that extracted nothing.
void describe_upstream(record::CampaignSpec& spec, const Upstream& upstream);
std::optional<Upstream> upstream_of(const record::CampaignSpec& spec);
// What is wrong with these keys; empty: nothing.
std::string upstream_problem(const record::CampaignSpec& spec);

// "src, tests of /home/me/kernels/fast at 0123456789ab"
std::string text_of(const Upstream& upstream);

// SHA-256 of every file below a folder, by its path there.
Result<std::map<std::string, std::string>> file_digests(const std::filesystem::path& folder);

}  // namespace ridge::campaign
