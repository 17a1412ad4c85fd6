// The kernel that a campaign accepted, as it leaves the campaign: its configuration written into the source, and a
// comment that says how to compile it and where it comes from.
#pragma once

#include <string>
#include <vector>

#include "campaign/state.h"

namespace ridge::campaign {

struct KernelExport {
  std::vector<record::SourceFile> files;  // the first is compiled, and begins with the comment
  std::string compile;                    // command line; empty where the build's own is not known
  std::string configuration;              // "VECTOR=16 MR=6"; empty when every tunable has its default
  std::int64_t round = 1;
  double speedup = 1;     // against the baseline
  bool measured = false;  // by the final measurement; else the product of the accepted rounds
  std::string candidate;  // id
};

// kConflict while no round is accepted: the baseline is the kernel that was handed in.
Result<KernelExport> export_kernel(const State& state);

// Best against baseline: of the final measurement, or the product of the accepted rounds until there is one.
double speedup_of(const State& state);

}  // namespace ridge::campaign
