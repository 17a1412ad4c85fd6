#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge {
namespace {

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
