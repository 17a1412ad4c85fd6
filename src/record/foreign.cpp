#include "record/foreign.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace ridge::record {
namespace {

std::int64_t integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<ForeignRun> parse_foreign_run(std::string_view text) {
  RIDGE_TRY(json, parse_json(text));
  if (!json.is_object()) return invalid("is no JSON object");
  ForeignRun run;
  run.campaign = text_of(json, "campaign_id");
  run.best_round = integer(json, "best_round");
  const auto history = json.find("history");
  if (history == json.end() || !history->is_array()) return run;
  for (const Json& entry : *history) {
    if (entry.is_object()) run.history.push_back({integer(entry, "round"), text_of(entry, "decision")});
  }
  return run;
}

}  // namespace ridge::record
