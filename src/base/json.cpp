#include "base/json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ridge {
namespace {

// Refuses values nested deeper than any record; the library reads a level of nesting in a function call of its own, so
// that a note of nothing but opening brackets would exhaust the stack.
class DepthLimit final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kDeepest; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ <= kDeepest; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr int kDeepest = 64;
  int depth_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return make_error(ErrorCode::kCorrupt, "not valid JSON at byte {}: {}", error.byte, error.what());
  } catch (const Json::exception& error) {  // a number beyond what a double holds, and the like
    return make_error(ErrorCode::kCorrupt, "not valid JSON: {}", error.what());
  }
}

Result<Json> parse_msgpack(std::string_view bytes) {
  DepthLimit limit;
  if (!Json::sax_parse(bytes, &limit, Json::input_format_t::msgpack)) {
    return make_error(ErrorCode::kCorrupt, "not valid MessagePack");
  }
  return Json::from_msgpack(bytes, true, false);
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
