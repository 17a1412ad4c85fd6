// What a worker is asked and answers, as JSON.
#include "record/archive.h"
#include "record/shipped_build.h"
#include "record/worker.h"

namespace ridge::record {

template struct Codec<Progress>;
template struct Codec<WorkerRequest>;
template struct Codec<WorkerResponse>;
template struct Codec<KernelPack>;
template struct Codec<std::vector<KernelPack>>;
template struct Codec<PackHeader>;
template struct Codec<PackedKernel>;
template struct Codec<ShippedBuilds>;
template struct Codec<std::vector<CheckReport>>;
template struct Codec<std::vector<Explanation>>;
template struct Codec<std::vector<OperatorInfo>>;

}  // namespace ridge::record
