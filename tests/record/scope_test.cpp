#include "record/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

std::string block(const std::string& body) { return "// first line\n/* ridge-scope\n" + body + "*/\nint x;\n"; }

std::string error_of(const std::string& body) {
  const auto scope = parse_scope(block(body));
  EXPECT_FALSE(scope.ok());
  return scope.ok() ? "" : scope.error().message;
}

std::string excluded(const std::string& body, const std::string& words, const Variables& variables = {}) {
  const auto scope = parse_scope(block(body));
  EXPECT_TRUE(scope.ok()) << scope.error().text();
  const auto why = (*scope)->excludes(*parse_case("gemm " + words), variables);
  EXPECT_TRUE(why.ok()) << why.error().text();
  return why->value_or("");
}

constexpr const char* kF32 = "dtype = [\"f32\"]\nlayout = [\"nn\", \"nt\"]\naccumulate = [0]\n";
constexpr const char* kEight = "[[needs]]\nexpression = \"k % 8 == 0\"\nreason = \"eight at a time\"\n";

TEST(Scope, ASourceWithoutABlockClaimsEverything) {
  const auto scope = parse_scope("/* other comment */ int ridge_scope;");
  ASSERT_TRUE(scope.ok());
  EXPECT_FALSE(scope->has_value());
}

TEST(Scope, TakesTheValuesItListsAndSaysWhichOthersItDoesNot) {
  EXPECT_EQ(excluded(kF32, "dtype=f32 layout=nt accumulate=0"), "");
  EXPECT_EQ(excluded(kF32, "dtype=fp32"), "") << "the same type by another name";
  EXPECT_EQ(excluded(kF32, "m=7"), "") << "what a case leaves out is not looked at";
  EXPECT_EQ(excluded(kF32, "dtype=bf16 layout=nn"), "dtype=bf16 is outside its scope (f32)");
  EXPECT_EQ(excluded(kF32, "layout=tt"), "layout=tt is outside its scope (nn, nt)");
  EXPECT_EQ(excluded(kF32, "accumulate=1"), "accumulate=1 is outside its scope (0)");
}

TEST(Scope, HoldsSizesToItsExpressions) {
  EXPECT_EQ(excluded(kEight, "k=16", {{"k", 16}}), "");
  EXPECT_EQ(excluded(kEight, "k=17", {{"k", 17}}), "k % 8 == 0: eight at a time");
  EXPECT_EQ(excluded(kEight, "k=17"), "") << "sizes are not known";
}

TEST(Scope, ErrorsNameTheLineOfTheSource) {
  EXPECT_THAT(error_of("dtype = \"f32\"\n"), HasSubstr("ridge-scope, line 3: \"dtype\" must be a list"));
  EXPECT_THAT(error_of("dtype = [1.5]\n"), HasSubstr("line 3"));
  EXPECT_THAT(error_of("dtype = [\"f32\"]\nneeds = [1]\n"), HasSubstr("line 4: \"needs\" must be tables"));
  EXPECT_THAT(error_of("[[needs]]\nexpression = \"k % 8 == 0\"\n"), HasSubstr("\"reason\" is missing"));
  EXPECT_THAT(error_of("[[needs]]\nexpression = \"k %% 8\"\nreason = \"none\"\n"), HasSubstr("line 3"));
  EXPECT_THAT(error_of("dtype = [\n"), HasSubstr("ridge-scope, line"));
}

}  // namespace
}  // namespace ridge::record
