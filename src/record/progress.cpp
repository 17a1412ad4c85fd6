#include "record/progress.h"

#include "record/archive.h"

namespace ridge::record {

template struct Codec<CampaignProgress>;

Result<CampaignProgress> parse_progress(std::string_view text, const std::string& place) {
  RIDGE_TRY(json, parse_json(text));
  const std::int64_t known = CampaignProgress{}.version;
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (version != json.end() && version->is_number_integer() && version->get<std::int64_t>() > known) {
    return make_error(ErrorCode::kCorrupt, "{} is of version {}, and this program reads up to version {}", place,
                      version->get<std::int64_t>(), known);
  }
  return from_json<CampaignProgress>(json, place);
}

}  // namespace ridge::record
