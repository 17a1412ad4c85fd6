// What makes a workspace: shared by the two kinds, of an operator of Ridgeline and of a reference of the user's.
#pragma once

#include <string>
#include <vector>

#include "record/workspace.h"
#include "ridge/result.h"
#include "service/workspace.h"

namespace ridge::service {

// "## Hardware Limits" of a README: peaks, caches, shared memory, registers and what occupancy rests on, each as the
// spec database cites it, and how to answer what it does not know. Names of these facts are added to `unknown`.
Result<std::string> hardware_limits(const Context& context, const WorkspaceRequest& options,
                                    std::vector<std::string>& unknown);
// "## ISA Targets"
std::string isa_targets(const WorkspaceRequest& options);

// README, workspace.json, .gitignore, the empty folders and the memory; then the first commit.
Status finish_workspace(const Context& context, const std::string& readme, const record::Workspace& workspace,
                        const std::string& folder);

// A workspace whose kernel is judged by a module of PyTorch or a function of C++. Nothing is left behind by one that
// fails.
Status write_reference_workspace(const Context& context, const WorkspaceRequest& options);

}  // namespace ridge::service
