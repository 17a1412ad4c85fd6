#include "base/visible.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(Visible, ShowsWhatWouldSteerATerminal) {
  EXPECT_EQ(visible("plain, ünï, 一\n\ttext"), "plain, ünï, 一\n\ttext");
  EXPECT_EQ(visible("\033[2J\033]0;title\a"), "\\u001b[2J\\u001b]0;title\\u0007");
  EXPECT_EQ(visible("over\rwritten\b\x7f"), "over\\u000dwritten\\u0008\\u007f");
  EXPECT_EQ(visible("\xC2\x9B"
                    "2J"),
            "\\u009b2J");  // the same command in one character
  EXPECT_EQ(visible("\x9B"
                    "2J"),
            "\xEF\xBF\xBD"
            "2J");  // and in one byte
  EXPECT_EQ(visible("a\xE2\x80\xAE"
                    "b"),
            "a\\u202eb");
  EXPECT_EQ(visible(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(visible("a,b\r\nc"), "a,b\r\nc");  // CSV
}

TEST(Visible, AShortLineIsOneLineOfWholeCharacters) {
  EXPECT_EQ(short_line("plain, ünï", 20), "plain, ünï");
  EXPECT_EQ(short_line("a\nb\tc\r\n\033[2J\x7f", 20), "a b c   [2J ");
  EXPECT_EQ(short_line("a\x9B", 20), "a\xEF\xBF\xBD");
  EXPECT_EQ(short_line("0123456789", 10), "0123456789");
  EXPECT_EQ(short_line("0123456789a", 10), "0123456...");
  EXPECT_EQ(short_line("abcdef一一一", 10), "abcdef...");  // no half of a character
  EXPECT_EQ(short_line("", 10), "");
  for (std::size_t most = 0; most < 12; ++most) {
    const std::string once = short_line(
        "ab一\ncdé\xFF"
        "fgh",
        most);
    EXPECT_LE(once.size(), most);
    EXPECT_EQ(short_line(once, most), once);
  }
}

TEST(Visible, ColoursAreTheOnlySequencesThatAreKept) {
  EXPECT_EQ(visible_with_colors("\033[1;31mbad\033[0m"), "\033[1;31mbad\033[0m");
  EXPECT_EQ(visible("\033[31m"), "\\u001b[31m");
  for (const char* other : {"\033[2J", "\033[31", "\033[6n", "\033c", "\033[1;1H", "\033[1111111111111111111m"})
    EXPECT_EQ(visible_with_colors(other).find('\033'), std::string::npos) << other + 1;
}

}  // namespace
}  // namespace ridge
