#include "record/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

Candidate candidate_of(const std::string& text, std::map<std::string, std::int64_t> defines) {
  Candidate candidate;
  candidate.sources = {{"kernel.cpp", text}, {"kernel.h", "inline int other;\n"}};
  candidate.defines = std::move(defines);
  return candidate;
}

std::string configured(const std::string& text) {
  const auto sources = configured_sources(candidate_of(text, {{"MR", 6}}));
  return sources ? sources->front().text : sources.error().message;
}

TEST(Configuration, TheValueIsReplacedWhereTheSourceDefinesTheName) {
  EXPECT_EQ(configured("#ifndef MR\n#define MR 1\n#endif\nint x = MR;\n"),
            "#ifndef MR\n#define MR 6\n#endif\nint x = MR;\n");
  EXPECT_EQ(configured("#  define MR 1"), "#  define MR 6");
  EXPECT_EQ(configured("constexpr int MR = 12;  // was 4\n"), "constexpr int MR = 6;  // was 4\n");
  EXPECT_EQ(configured("MR = 1\nif MR == 1: pass\n"), "MR = 6\nif MR == 1: pass\n");
  EXPECT_EQ(configured("def k(a, MR: tl.constexpr = -1):\n"), "def k(a, MR: tl.constexpr = 6):\n");
  EXPECT_EQ(configured("MR = 6"), "MR = 6");
}

TEST(Configuration, OtherNamesAndValuesAreLeftAlone) {
  EXPECT_THAT(configured("#define MRX 1\nint XMR = 1, A_MR = 2;\n"), HasSubstr("MR is defined nowhere"));
  EXPECT_THAT(configured("#define MR (1 + 1)\n"), HasSubstr("MR is defined nowhere"));
  EXPECT_THAT(configured("MR = 4 * N\nMR = 4 / N\nMR = 4.5\nMR == 4\n"), HasSubstr("MR is defined nowhere"));
  EXPECT_THAT(configured("#if MR\n#elif MR == 4\n"), HasSubstr("MR is defined nowhere"));
  EXPECT_THAT(configured("#define MR 1\nint MR = 1;\n"), HasSubstr("MR is defined 2 times"));
}

TEST(Configuration, ADefinitionMayStandInAnyFile) {
  Candidate candidate = candidate_of("int x = MR;\n", {{"MR", 2}});
  candidate.sources[1].text = "#define MR 1\n";
  EXPECT_EQ(configured_sources(candidate)->at(1).text, "#define MR 2\n");
}

}  // namespace
}  // namespace ridge::record
