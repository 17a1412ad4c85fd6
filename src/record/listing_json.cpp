// What the command line prints with --json: lists, hardware facts, inspections.
#include "record/archive.h"
#include "record/hardware.h"
#include "record/hardware_exchange.h"
#include "record/inspection.h"
#include "record/knowledge.h"
#include "record/listing.h"
#include "record/tuned.h"
#include "record/workspace.h"

namespace ridge::record {

template struct Codec<Audit>;
template struct Codec<KernelFile>;
template struct Codec<KeyAnswer>;
template struct Codec<LintReport>;
template struct Codec<ListedItem>;
template struct Codec<Listing>;
template struct Codec<RuleTable>;
template struct Codec<Slimmed>;
template struct Codec<SpecFact>;
template struct Codec<SpecProbe>;
template struct Codec<ExchangedSheet>;
template struct Codec<SpecSheet>;
template struct Codec<WatchLine>;
template struct Codec<Workspace>;
template struct Codec<std::vector<CampaignRow>>;
template struct Codec<std::vector<HandoffRow>>;
template struct Codec<HandoffInit>;
template struct Codec<std::vector<Inspection>>;
template struct Codec<std::vector<InstructionDifference>>;
template struct Codec<std::vector<RooflineReport>>;
template struct Codec<std::vector<SpecDifference>>;
template struct Codec<std::vector<SpecSummary>>;
template struct Codec<std::vector<TunedChoice>>;
template struct Codec<std::vector<KnowledgeHit>>;
template struct Codec<KnowledgeEntry>;
template struct Codec<std::vector<std::string>>;

}  // namespace ridge::record
