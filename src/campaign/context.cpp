#include "campaign/context.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "campaign/advice.h"
#include "campaign/campaign.h"
#include "campaign/iterations.h"
#include "campaign/profile_hook.h"
#include "campaign/termination.h"
#include "campaign/transition.h"
#include "knowledge/memory.h"
#include "knowledge/pages.h"

namespace ridge::campaign {

record::ProposalRequest proposal_request(const State& state, Told told) {
  record::ProposalRequest request = proposal_request(state);
  request.memory = std::move(told.memory);
  request.knowledge = std::move(told.knowledge);
  request.profile = std::move(told.profile);
  if (request.profile) {
    for (std::string& finding : findings_of(*request.profile)) request.findings.push_back(std::move(finding));
  }
  request.earlier = std::move(told.earlier);
  if (std::isfinite(told.seconds_left)) request.seconds_left = std::max(told.seconds_left, 0.0);
  return request;
}

Result<record::ProposalRequest> context_of(const std::filesystem::path& directory, const std::filesystem::path& data,
                                           const std::vector<std::filesystem::path>& knowledge) {
  RIDGE_TRY(state, load_campaign(directory));
  if (!state.baseline_committed)
    return with_hint(make_error(ErrorCode::kConflict, "the baseline of {} is not measured", directory.string()),
                     fmt::format("ridge campaign resume {}", directory.string()));
  if (state.terminated())
    return with_hint(make_error(ErrorCode::kConflict, "{} has ended: no proposer is asked", directory.string()),
                     fmt::format("ridge campaign extend {} --budget 1h gives it more", directory.string()));
  Told told;
  if (const auto memory = knowledge::Memory::open(memory_root(state, directory))) {
    RIDGE_TRY(recalled, recall(state, *memory));
    told.memory = std::move(recalled.visible);
  }
  RIDGE_TRY(profile, profile_of_incumbent(state, directory));
  told.profile = std::move(profile);
  RIDGE_TRY(pages, knowledge::read_pages(data / "knowledge", knowledge));
  knowledge::Route route = route_of(state, data);
  route.bottleneck = bottleneck_of(state, told.profile);
  told.knowledge = advice(state, pages.entries, route);
  TerminationInput input;
  input.active = state.active;
  told.seconds_left = seconds_left(state, input);
  return proposal_request(state, std::move(told));
}

}  // namespace ridge::campaign
