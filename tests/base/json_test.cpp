#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge {
namespace {

TEST(Json, SaysWhereAndWhatWasExpected) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected a value, found the end"},
      {"{\n \"a\": 1\n \"b\": 2}", "line 3, column 4: expected ',' and a key in quotes, or '}', found"},
      {"{a: 1}", "line 1, column 2: expected a key in quotes or '}', found \"{a\""},
      {"{\"a\" 1}", "expected ':' and a value, found \"1\""},
      {"[1, 2", "expected ',' and a value, or ']', found the end"},
      {"[1 2]", "expected ',' and a value, or ']', found \"2\""},
      {"[,]", "expected a value or ']'"},
      {"{} {}", "expected nothing behind the value"},
      {"1e999", "is beyond what a number can be"},
      {"[\"\x1b[2J", "<U+001B>"},
  };
  for (const auto& [text, says] : cases) {
    const Result<Json> value = parse_json(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(value.error().message.find(says), std::string::npos) << value.error().message;
    EXPECT_EQ(value.error().message.find("json.exception"), std::string::npos) << value.error().message;
  }
}

// Two readers may take either of the two: a signed text would then say two things.
TEST(Json, RefusesAKeyThatIsThereTwice) {
  EXPECT_NE(parse_json(R"({"ok":false,"ok":true})").error().message.find("\"ok\" is there twice"), std::string::npos);
  EXPECT_FALSE(parse_json(R"([{"a":{"b":1,"c":2,"b":3}}])"));
  EXPECT_FALSE(parse_json(R"({"a":1,"\u0061":2})"));  // the same key, spelled otherwise
  EXPECT_TRUE(parse_json(R"([{"a":1},{"a":1},{"b":{"a":1}}])"));
  EXPECT_FALSE(
      parse_msgpack(std::string("\x82\xa1"
                                "a\x01\xa1"
                                "a\x02",
                                7)));
}

TEST(Json, NestingWithoutEndIsRefused) {
  EXPECT_NE(parse_json(std::string(10'000'000, '[')).error().message.find("64 levels"), std::string::npos);
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']')));
}

TEST(Msgpack, ReadsEveryFormAndRefusesDamage) {
  const std::string packed(
      "\x83\xa1"
      "a\x01\xa1"
      "b\x92\xff\xcd\x01\x00\xa1"
      "c\xc3",
      14);
  const Result<Json> value = parse_msgpack(packed);
  ASSERT_TRUE(value) << value.error().text();
  EXPECT_EQ(dump_json(*value), R"({"a":1,"b":[-1,256],"c":true})");
  for (std::size_t cut = 0; cut < packed.size(); ++cut) EXPECT_FALSE(parse_msgpack(packed.substr(0, cut))) << cut;
  EXPECT_FALSE(parse_msgpack(packed + packed)) << "bytes after the value";
  EXPECT_FALSE(parse_msgpack("\x81\x01\x02")) << "a key that is no text";
}

TEST(Msgpack, NestingWithoutEndDoesNotExhaustTheStack) {
  EXPECT_FALSE(parse_msgpack(std::string(10'000'000, '\x91')));
  std::string nested(10'000'000, '\x91');
  nested += '\xc0';
  EXPECT_FALSE(parse_msgpack(nested));
  EXPECT_TRUE(parse_msgpack(std::string(20, '\x91') + '\xc0'));
}

}  // namespace
}  // namespace ridge
