// A campaign as a workspace of another driver: the accepted kernel at the top of a git repository, memory/v<N>.json
// with every key of that layout, plans/v<N>_plan.md. v0 is the baseline; a round that was not measured is no version.
#pragma once

#include <vector>

#include "campaign/render.h"
#include "record/foreign.h"

namespace ridge::campaign {

struct ExportedVersion {
  record::ForeignIteration iteration;  // without its commit
  FileMap kernel;                      // the sources that its commit brings; empty: the version was not accepted
  std::string plan;                    // empty: none
  std::string subject;                 // of its commit
};

struct ExportedWorkspace {
  FileMap files;  // all of them as they stand at the end, records without their commits
  std::vector<ExportedVersion> versions;
};
ExportedWorkspace render_workspace(const State& state);
// The plan of a round: what it rests on, its one action, what is expected, and what may go wrong.
std::string plan_of(const Round& round);

}  // namespace ridge::campaign
