#include "base/json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ridge {

Result<Json> parse_json(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return make_error(ErrorCode::kCorrupt, "not valid JSON at byte {}: {}", error.byte, error.what());
  } catch (const Json::exception& error) {  // a number beyond what a double holds, and the like
    return make_error(ErrorCode::kCorrupt, "not valid JSON: {}", error.what());
  }
}

// Bytes that are not UTF-8 (a compiler's output, a file name) are replaced, never a reason to lose the record.
std::string dump_json(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_utf8(std::string_view text) {
  try {
    (void)Json(std::string(text)).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

void make_utf8(Json& value) {
  try {
    (void)value.dump();
  } catch (const Json::type_error&) {
    value = Json::parse(dump_json(value));
  }
}

std::string pretty_json(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace ridge
