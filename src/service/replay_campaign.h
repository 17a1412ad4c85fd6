// The proposer of a campaign on recorded measurements of a kernel's space instead of a device.
#pragma once

#include <cstdint>
#include <string>

#include "record/candidate.h"
#include "record/tuning_cache.h"
#include "record/tuning_replay.h"
#include "ridge/result.h"

namespace ridge::service {

struct ReplayedKernel {
  std::string path, text;   // with a ridge-tunables block
  record::TuneSpace space;  // what it declares, of which only recorded values count
};
Result<ReplayedKernel> replayed_kernel(const std::string& path);

// The rows that `ridge optimize --proposer search:SEED` would measure, in their order: a start that is drawn from those
// that run, then a round after the other, in which the fastest look is accepted where it gains 1 %. There is no noise,
// no confirmation and no budget; the roofline is put at 0.8 of the fastest recorded time. An error names the parameter
// of the recording that the kernel does not have.
Result<record::TuningRun> replay_campaign(const record::TuningCache& cache, const ReplayedKernel& kernel,
                                          std::int64_t seed, std::size_t evaluations);

}  // namespace ridge::service
