// JSON values. Which keys exist is decided in src/record alone; this is only the text format.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

// Keeps the order in which keys were written, so that equal records have equal bytes.
using Json = nlohmann::ordered_json;

// The error names line and column, and what was expected there. A key that is there twice is refused: which of the two
// counted would be up to the reader. So is nesting beyond 64 levels.
Result<Json> parse_json(std::string_view text);
// A value in MessagePack, all of `bytes`. Refused as kCorrupt: damage, keys that are no text, nesting beyond 64 levels.
Result<Json> parse_msgpack(std::string_view bytes);
// One line, no spaces; NaN and infinities become null.
std::string dump_json(const Json& value);
// Whether a text survives being written and read again: bytes that are no UTF-8 would be replaced.
bool is_utf8(std::string_view text);
// Replaces what is not UTF-8 in all texts of a value, so that it equals what will be read again.
void make_utf8(Json& value);
// Indented by two spaces, for people.
std::string pretty_json(const Json& value);

}  // namespace ridge
