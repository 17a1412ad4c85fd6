// The first page: every campaign, and several side by side.
#pragma once

#include <vector>

#include "http/message.h"
#include "record/web.h"
#include "web/page.h"

namespace ridge::web {

// With what the query asks for: q (words that all must be there), state, sort.
std::vector<record::CampaignCard> chosen_cards(std::vector<record::CampaignCard> cards, const http::Request& request);

Page overview_page(const std::vector<record::CampaignCard>& all, const http::Request& request,
                   const std::string& folder);
Page compare_page(const std::vector<record::CampaignCard>& cards);

}  // namespace ridge::web
