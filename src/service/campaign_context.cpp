#include "service/campaign_context.h"

#include "campaign/campaign.h"
#include "campaign/context.h"
#include "service/earlier_looks.h"

namespace ridge::service {

Result<record::ProposalRequest> context_of_campaign(const Context& context, const std::string& directory) {
  RIDGE_TRY(request, campaign::context_of(directory, context.data_directory, context.knowledge));
  RIDGE_TRY(state, campaign::load_campaign(directory));
  request.earlier = earlier_looks(context, state, kLooksShown);
  return request;
}

}  // namespace ridge::service
