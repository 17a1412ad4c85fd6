// What `ridge serve` gives and takes.
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "record/archive.h"
#include "record/web.h"

namespace ridge::record {

template struct Codec<std::vector<CampaignCard>>;
template struct Codec<ControlRequest>;
template struct Codec<ServeAnswer>;

bool is_whole_line(std::string_view line) {
  Result<Json> event = parse_json(line);
  if (!event || !event->is_object() || !event->contains("hash") || !(*event)["hash"].is_string()) return false;
  const std::string said = (*event)["hash"].get<std::string>();
  (*event)["hash"] = "";
  return sha256(dump_json(*event)) == said;
}

}  // namespace ridge::record
