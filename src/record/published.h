// JSON Schemas of what other programs exchange with a campaign; docs/schema/ holds them as files.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"

namespace ridge::record {

struct PublishedSchema {
  std::string_view name;  // "proposal_request", "agent_answer"
  Json (*schema)();
};
const std::vector<PublishedSchema>& published_schemas();

}  // namespace ridge::record
