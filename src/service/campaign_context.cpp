#include "service/campaign_context.h"

#include "campaign/context.h"

namespace ridge::service {

Result<record::ProposalRequest> context_of_campaign(const Context& context, const std::string& directory) {
  return campaign::context_of(directory, context.data_directory, context.knowledge);
}

}  // namespace ridge::service
