// Candidates, proposals and launch plans as JSON.
#include "record/archive.h"
#include "record/candidate.h"
#include "record/launch_plan.h"

namespace ridge::record {

template struct Codec<Candidate>;
template struct Codec<LaunchPlan>;
template struct Codec<Proposal>;

}  // namespace ridge::record
