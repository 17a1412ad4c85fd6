// Units of work on other machines, as JSON.
#include "record/archive.h"
#include "record/unit.h"

namespace ridge::record {

template struct Codec<UnitOrder>;
template struct Codec<UnitPlace>;
template struct Codec<UnitSubmission>;
template struct Codec<UnitBatch>;
template struct Codec<UnitTaker>;
template struct Codec<UnitStart>;
template struct Codec<UnitResult>;
template struct Codec<UnitFailure>;
template struct Codec<ScriptedAnswer>;

}  // namespace ridge::record
