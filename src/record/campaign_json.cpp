// What a campaign decides, asks and takes from others, as JSON.
#include "record/agent.h"
#include "record/archive.h"
#include "record/campaign.h"
#include "record/foreign.h"
#include "record/promotion.h"

namespace ridge::record {

template struct Codec<AgentAnswer>;
template struct Codec<CalibrationReport>;
template struct Codec<Comparison>;
template struct Codec<Decision>;
template struct Codec<Escalated>;
template struct Codec<ForeignCampaign>;
template struct Codec<ForeignIteration>;
template struct Codec<ForeignRun>;
template struct Codec<GateResult>;
template struct Codec<Ineffective>;
template struct Codec<PendingEdits>;
template struct Codec<Profiled>;
template struct Codec<Promotion>;
template struct Codec<ProposalRequest>;
template struct Codec<RoundSummary>;
template struct Codec<Termination>;
template struct Codec<TuneSpace>;
template struct Codec<Waived>;
template struct Codec<std::vector<Effect>>;

}  // namespace ridge::record
