// Iterations and reports as JSON.
#include "record/archive.h"
#include "record/iteration.h"
#include "record/report.h"

namespace ridge::record {

template struct Codec<Iteration>;
template struct Codec<MemoryRestart>;
template struct Codec<Report>;
template struct Codec<std::vector<Iteration>>;

}  // namespace ridge::record
