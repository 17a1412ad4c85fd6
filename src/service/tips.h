// What is known about making a kernel faster: the knowledge pages, and tips of earlier campaigns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "record/knowledge.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct TipsRequest {
  std::vector<std::string> words;                   // all of them stand in a hit
  std::string op, device, language, bottleneck;     // empty: any
  std::string experience = "campaigns/experience";  // tips of earlier campaigns
  std::int64_t limit = 10;
};
struct TipsFound {
  std::vector<record::KnowledgeHit> hits;  // best first, at most `limit`
  std::size_t all = 0;
};
Result<TipsFound> search_tips(const Context& context, const TipsRequest& request);
// One entry of the pages, by the id that a search gives.
Result<record::KnowledgeEntry> find_page(const Context& context, const std::string& id);

}  // namespace ridge::service
