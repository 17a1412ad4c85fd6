// A workspace as other use cases use it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "record/candidate.h"
#include "record/case.h"
#include "record/workspace.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

inline constexpr const char* kWorkspaceFile = "workspace.json";

// kNotFound with the command that makes one.
Result<record::Workspace> read_workspace(const std::filesystem::path& folder);

struct WorkspaceSubject {
  record::Workspace workspace;
  record::Candidate kernel;
  std::vector<record::Case> cases;
};
// The kernel with the cases it is measured on. Refuses a workspace without an operator (without a reference nothing can
// be judged) and what this machine cannot run: a GPU's kernel language without
// its engine, a processor's kernel in a workspace whose targets are a GPU's.
Result<WorkspaceSubject> workspace_subject(const Context& context, const std::filesystem::path& folder);

// `readme` with its section "## <title>" replaced by `body`, or added at the end.
std::string with_section(const std::string& readme, const std::string& title, const std::string& body);

}  // namespace ridge::service
