// What machines the campaigns ran on: measured ceilings, noise over time, and what their documents state.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "journal/fold.h"
#include "record/web.h"
#include "report/report.h"
#include "web/page.h"

namespace ridge::web {

// The devices of all campaigns with the latest campaign of each.
Page devices_page(const std::vector<record::CampaignCard>& cards);
// The device of one campaign. `data` holds the spec database; empty: none.
Page device_page(const record::CampaignCard& card, const report::Model& model, const journal::State& state,
                 const std::filesystem::path& data);

}  // namespace ridge::web
