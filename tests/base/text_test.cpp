#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge {
namespace {

using testing::ElementsAre;

TEST(Text, LosesBlanksAtItsEndsOnly) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("  \n"), "");
  EXPECT_EQ(trimmed(" M file\n", "\r\n"), " M file");
}

TEST(Text, KeepsEmptyParts) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, QuotedCellsHoldCommasAndQuotes) {
  EXPECT_THAT(csv_cells("a,\"b,c\",\"say \"\"x\"\"\","), ElementsAre("a", "b,c", "say \"x\"", ""));
  for (const char* text : {"plain", "b,c", "say \"x\""}) EXPECT_THAT(csv_cells(csv_cell(text)), ElementsAre(text));
}

}  // namespace
}  // namespace ridge
