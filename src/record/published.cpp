#include "record/published.h"

#include "record/agent.h"
#include "record/campaign.h"
#include "record/schema.h"

namespace ridge::record {

const std::vector<PublishedSchema>& published_schemas() {
  static const std::vector<PublishedSchema> schemas = {
      {"proposal_request", [] { return schema_of<ProposalRequest>("Request to a proposer, version 1"); }},
      {"agent_answer", [] { return schema_of<AgentAnswer>("Answer of a proposer, version 1"); }},
  };
  return schemas;
}

}  // namespace ridge::record
