// The payloads of the journal as JSON.
#include "record/archive.h"
#include "record/journal.h"

namespace ridge::record {

template struct Codec<Baseline>;
template struct Codec<BudgetChange>;
template struct Codec<Calibrated>;
template struct Codec<Committed>;
template struct Codec<Confirmed>;
template struct Codec<Created>;
template struct Codec<Evaluated>;
template struct Codec<Event>;
template struct Codec<Final>;
template struct Codec<Intent>;
template struct Codec<Masked>;
template struct Codec<Note>;
template struct Codec<Prepared>;
template struct Codec<Proposed>;
template struct Codec<Replicated>;
template struct Codec<Reported>;
template struct Codec<RolledBack>;
template struct Codec<Screened>;
template struct Codec<TipsRead>;

}  // namespace ridge::record
