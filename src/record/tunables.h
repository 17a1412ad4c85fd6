// The tunables a candidate source declares in its `ridge-tunables` comment; the format is described at record::Tunable.
#pragma once

#include <string_view>

#include "record/candidate.h"
#include "ridge/result.h"

namespace ridge::record {

// The space declared by one source text; empty when it declares none. An error names the line and the key.
Result<TuneSpace> parse_tunables(std::string_view source);

// The space of a candidate: of the first of its sources that declares one, with the start and the fixed tunables of its
// ridge-campaign comment (campaign_block.h).
Result<TuneSpace> tune_space(const Candidate& candidate);

}  // namespace ridge::record
