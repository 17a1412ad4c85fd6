#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/visible.h"

namespace ridge {
namespace {

constexpr std::size_t kDeepest = 64;  // levels of nesting; no record has more

// Reads a text without keeping it, and notes the first thing that is wrong: a key that is there twice, nesting without
// end (the library would read a level of MessagePack in a function call of its own, and exhaust the stack), or what
// stands where something else is expected.
class Strict final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return enter(true); }
  bool key(string_t& name) override {
    after_key_ = true;
    if (levels_.back().keys.insert(name).second) return true;
    problem_ = fmt::format("the key \"{}\" is there twice", visible(name.substr(0, kMostShown)));
    return false;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(false); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    byte_ = position;
    if (error.id == kOutOfRange) {
      problem_ = fmt::format("{} is beyond what a number can be", token);
      return false;
    }
    if (std::string_view(error.what()).find("unexpected end of input") != std::string_view::npos) {
      problem_ = fmt::format("expected {}, found the end", expected());
      return false;
    }
    // The last token begins where the last value ended; its last character is the one that does not fit.
    const std::size_t blanks = token.find_first_not_of(" \t\r\n");
    const std::string last = blanks == std::string::npos ? std::string() : token.substr(blanks);
    const std::string shown = visible(last.size() > kMostShown ? "..." + last.substr(last.size() - kMostShown) : last);
    problem_ = fmt::format("expected {}, found {}", expected(), shown.empty() ? "the end" : "\"" + shown + "\"");
    return false;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Of the problem, from 1; 0: not known.
  [[nodiscard]] std::size_t byte() const { return byte_; }

 private:
  static constexpr std::size_t kMostShown = 40;
  struct Level {
    bool object = false;
    std::set<std::string> keys;
    bool empty = true;
  };

  bool value() {
    after_key_ = false;
    if (levels_.empty())
      done_ = true;
    else
      levels_.back().empty = false;
    return true;
  }
  bool enter(bool object) {
    value();
    done_ = false;
    if (levels_.size() >= kDeepest) {
      problem_ = fmt::format("it is nested deeper than {} levels", kDeepest);
      return false;
    }
    levels_.push_back({object, {}, true});
    return true;
  }
  bool leave() {
    levels_.pop_back();
    return value();
  }
  [[nodiscard]] const char* expected() const {
    if (levels_.empty()) return done_ ? "nothing behind the value" : "a value";
    if (after_key_) return "':' and a value";
    if (levels_.back().object)
      return levels_.back().empty ? "a key in quotes or '}'" : "',' and a key in quotes, or '}'";
    return levels_.back().empty ? "a value or ']'" : "',' and a value, or ']'";
  }

  std::vector<Level> levels_;
  bool after_key_ = false, done_ = false;
  std::string problem_;
  std::size_t byte_ = 0;
};

// "line 3, column 9"
std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const std::size_t start = before.rfind('\n');
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1);
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  Strict strict;
  if (Json::sax_parse(text, &strict)) return Json::parse(text, nullptr, false);
  if (strict.byte() == 0) return make_error(ErrorCode::kCorrupt, "not valid JSON: {}", strict.problem());
  return make_error(ErrorCode::kCorrupt, "not valid JSON at {}: {}", place_of(text, strict.byte()), strict.problem());
}

Result<Json> parse_msgpack(std::string_view bytes) {
  Strict strict;
  if (!Json::sax_parse(bytes, &strict, Json::input_format_t::msgpack)) {
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
