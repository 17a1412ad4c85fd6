#include "record/tunables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

std::string block(const std::string& body) { return "// first line\n/* ridge-tunables\n" + body + "*/\nint x;\n"; }

constexpr const char* kTunable = "[[tunable]]\nname = \"MR\"\nvalues = [1, 2]\ndefault = 1\ntitle = \"rows\"\n";

std::string error_of(const std::string& body) {
  const auto space = parse_tunables(block(body));
  EXPECT_FALSE(space.ok());
  return space.ok() ? "" : space.error().message;
}

TEST(Tunables, ReadsWhatASourceDeclares) {
  const auto space = parse_tunables(block(std::string(kTunable) + "model = \"register_rows\"\ngroup = \"tile\"\n" +
                                          "[[constraint]]\nexpression = \"MR <= 2\"\nreason = \"because\"\n"));
  ASSERT_TRUE(space.ok()) << space.error().text();
  ASSERT_EQ(space->tunables.size(), 1u);
  EXPECT_EQ(space->tunables[0].name, "MR");
  EXPECT_EQ(space->tunables[0].values, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(space->tunables[0].kind, "parameter");
  EXPECT_EQ(space->tunables[0].model, "register_rows");
  EXPECT_EQ(space->tunables[0].group, "tile");
  EXPECT_EQ(space->constraints[0].reason, "because");
}

TEST(Tunables, ASourceWithoutABlockDeclaresNothing) {
  const auto space = parse_tunables("/* other comment */ int ridge_tunables;");
  ASSERT_TRUE(space.ok());
  EXPECT_TRUE(space->tunables.empty());
}

TEST(Tunables, ErrorsNameTheLineOfTheSource) {
  EXPECT_THAT(error_of("[[tunable]]\nname = \"MR\"\nvalues = [1, \"2\"]\n"), HasSubstr("line 5: "));
  EXPECT_THAT(error_of("[[tunable]\n"), HasSubstr("line 3: "));
}

TEST(Tunables, RefusesWhatIsHalfDeclared) {
  EXPECT_THAT(error_of("[[tunable]]\nname = \"MR\"\n"), HasSubstr("key \"values\" is missing"));
  EXPECT_THAT(error_of("[[tunable]]\nname = \"MR\"\nvalues = [2]\ndefault = 1\ntitle = \"t\"\n"),
              HasSubstr("default 1 is not among its values"));
  EXPECT_THAT(error_of(std::string(kTunable) + kTunable), HasSubstr("MR is declared twice"));
  EXPECT_THAT(error_of(std::string(kTunable) + "colour = \"red\"\n"), HasSubstr("unknown key \"colour\""));
  EXPECT_THAT(error_of(std::string(kTunable) + "kind = \"magic\"\n"), HasSubstr("neither parameter nor structure"));
  EXPECT_THAT(error_of(std::string(kTunable) + "category = \"luck\"\n"),
              HasSubstr("category \"luck\" is not one of tile, layout"));
  EXPECT_THAT(error_of("[[tunable]]\nname = \"mr;rm\"\nvalues = [1]\ndefault = 1\ntitle = \"t\"\n"),
              HasSubstr("is not a macro name"));
  EXPECT_FALSE(parse_tunables("/* ridge-tunables\nname = 1").ok());
}

}  // namespace
}  // namespace ridge::record
