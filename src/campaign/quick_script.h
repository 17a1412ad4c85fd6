// quick_test_bench.py of a campaign on an operator of Ridgeline: what other drivers call to check and time the kernel.
#pragma once

#include <string>

#include "record/campaign.h"

namespace ridge::campaign {

inline constexpr const char* kQuickScript = "quick_test_bench.py";

// Checks and times the kernel that was accepted last (src/), or the one it is given, by `ridge bench`, and writes the
// table of the campaign's rounds: the frozen header, a row for each shape. No decision reads it.
std::string render_quick_script(const record::CampaignSpec& spec);

}  // namespace ridge::campaign
