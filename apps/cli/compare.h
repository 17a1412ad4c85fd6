// One decision between two candidate sources, outside of any campaign.
#pragma once

#include "record/campaign.h"
#include "record/worker.h"
#include "ridge/result.h"

namespace ridge::cli {

// Evaluates `candidate` against `incumbent` with the cases, protocol and ceilings of `request`, and judges it by the
// gates of a campaign. Gates that ask whether the change is one (artefact, transfer) do not apply.
Result<record::Comparison> compare(const record::Candidate& incumbent, const record::Candidate& candidate,
                                   record::WorkerRequest request);

}  // namespace ridge::cli
