// A configuration written into the source: what -DNAME=VALUE says on a command line of ours, said by the file itself,
// for builds that are not ours and for a kernel that leaves its campaign.
#pragma once

#include <vector>

#include "record/candidate.h"
#include "ridge/result.h"

namespace ridge::record {

// The sources of a candidate with the value of every define in the place where the source defines the name:
//   #define NAME 4     constexpr int NAME = 4;     NAME = 4     NAME: tl.constexpr = 4
// An error names a define that the sources define nowhere or more than once.
Result<std::vector<SourceFile>> configured_sources(const Candidate& candidate);

// Whether the tunables that a candidate declares can be set: the block is well formed, its expressions speak of its own
// names, its defaults form a valid configuration, and the sources define each name once, with its default.
Status check_tunables(const Candidate& candidate);

}  // namespace ridge::record
