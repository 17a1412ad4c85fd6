// Whether this machine, as it is now, can decide a gain of 1 %: a few sessions of a kernel against itself.
#pragma once

#include "record/worker.h"

namespace ridge::cli {

// Takes some seconds. Not available when gains above 2 % and less cannot be decided in about 15 sessions.
record::Capability probe_noise(const record::Environment& environment);

}  // namespace ridge::cli
