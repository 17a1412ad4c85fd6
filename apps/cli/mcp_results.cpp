#include "mcp_results.h"

#include <map>
#include <vector>

#include "record/campaign.h"
#include "record/hardware.h"
#include "record/inspection.h"
#include "record/iteration.h"
#include "record/knowledge.h"
#include "record/listing.h"
#include "record/measurement.h"
#include "record/profile.h"
#include "record/promotion.h"
#include "record/report.h"
#include "record/schema.h"
#include "record/worker.h"

namespace ridge::cli {
namespace {

template <class T>
Json schema() {
  return record::schema::of<T>();
}
template <class T>
Json list_of() {
  return record::schema::of<std::vector<T>>();
}
Json inspections_or_differences() {
  return {{"anyOf", {list_of<record::Inspection>(), list_of<record::InstructionDifference>()}}};
}

}  // namespace

ResultSchema result_schema(const std::string& command) {
  static const std::map<std::string, ResultSchema> schemas = {
      {"doctor", schema<record::WorkerResponse>},
      {"spec show", schema<record::SpecSheet>},
      {"spec get", schema<record::SpecFact>},
      {"ceilings", list_of<record::Ceiling>},
      {"roofline", list_of<record::RooflineReport>},
      {"ops list", list_of<record::OperatorInfo>},
      {"ops explain", list_of<record::Explanation>},
      {"optimize", schema<record::Report>},
      {"campaign confirm", schema<record::CommandAnswer>},
      {"campaign resume", schema<record::Report>},
      {"campaign status", schema<record::Report>},
      {"campaign context", schema<record::ProposalRequest>},
      {"campaign propose", schema<record::RoundSummary>},
      {"campaign stop", schema<record::CommandAnswer>},
      {"campaign pause", schema<record::CommandAnswer>},
      {"campaign extend", schema<record::CommandAnswer>},
      {"campaign report", schema<record::Report>},
      {"campaign rules", schema<record::RuleTable>},
      {"campaign verify", schema<record::Audit>},
      {"campaign replay", schema<record::Audit>},
      {"campaign list", list_of<record::CampaignRow>},
      {"campaign export-kernel", schema<record::KernelFile>},
      {"promote", schema<record::Promotion>},
      {"check", list_of<record::CheckReport>},
      {"try", schema<record::Look>},
      {"bench", schema<record::BenchReport>},
      {"inspect", inspections_or_differences},
      {"profile", schema<record::ProfileReport>},
      {"memory summary", list_of<record::Iteration>},
      {"tips search", list_of<record::KnowledgeHit>},
      {"handoff", list_of<record::HandoffRow>},
      {"handoff init", schema<record::HandoffInit>},
  };
  const auto found = schemas.find(command);
  return found == schemas.end() ? nullptr : found->second;
}

}  // namespace ridge::cli
