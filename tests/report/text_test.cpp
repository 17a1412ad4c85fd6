#include <gtest/gtest.h>

#include <cmath>

#include "report/axes.h"
#include "report/diff.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

TEST(CleanUtf8, KeepsValidTextAndReplacesTheRest) {
  EXPECT_EQ(clean_utf8("µ × 日本 𝛼\n\t"), "µ × 日本 𝛼\n\t");
  EXPECT_EQ(clean_utf8("a\xff"
                       "b"),
            "a\uFFFD"
            "b");
  EXPECT_EQ(clean_utf8("\xc0\xaf"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(clean_utf8("\xed\xa0\x80").find('\xed'), std::string::npos);  // surrogate
  EXPECT_EQ(clean_utf8("cut \xe2\x82"), "cut \uFFFD\uFFFD");
  EXPECT_EQ(clean_utf8(std::string("nul\0", 4)), "nul\uFFFD");
  EXPECT_EQ(clean_utf8("line\r\nend"), "line\nend");
  EXPECT_EQ(clean_utf8("\u202eabc"), "\uFFFDabc");
}

TEST(EscapeMarkdown, LeavesNamesReadable) {
  EXPECT_EQ(escape_markdown("PACK_B = 1"), "PACK_B = 1");
  EXPECT_EQ(escape_markdown("_x_ a|b\nc"), "\\_x\\_ a\\|b c");
}

TEST(Numbers, HaveThreeDigitsAndUnits) {
  EXPECT_EQ(flops_text(41.23e9), "41.2 GFLOP/s");
  EXPECT_EQ(latency_text(359.4e-6), "359 µs");
  EXPECT_EQ(ratio_text(8.9123), "8.91×");
  EXPECT_EQ(gain_text(-0.0405), "−4.05 %");
  EXPECT_EQ(gain_text(3.5), "+350 %");
  EXPECT_EQ(plain_percent(0.05), "5 %");
  EXPECT_EQ(plain(2400), "2400");
  EXPECT_EQ(plain(100), "100");
  EXPECT_EQ(flops_text(std::nan("")), "unknown");
}

TEST(Diff, ShowsChangedLinesWithContext) {
  const std::string before = "a\nb\nc\nd\ne\nf\ng\nh\n", after = "a\nb\nc\nd\nE\nf\ng\nh\n";
  EXPECT_EQ(unified_diff("k.cpp", before, after),
            "--- k.cpp\n+++ k.cpp\n@@ -2 +2 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
  EXPECT_EQ(unified_diff("k.cpp", before, before), "");
  EXPECT_EQ(unified_diff("k.cpp", "", "x\n"), "--- k.cpp\n+++ k.cpp\n@@ -1 +1 @@\n+x\n");
}

TEST(Diff, SaysHowMuchItLeavesOut) {
  std::string after;
  for (int i = 0; i < 50; ++i) after += "line\n";
  const std::string diff = unified_diff("k.cpp", "", after, 10);
  EXPECT_NE(diff.find("... 40 more lines"), std::string::npos);
}

TEST(Axes, TicksAreRoundAndInsideTheScale) {
  for (const double low : {0.93, 1.0, 7.0, 1e-3}) {
    for (const double factor : {1.0001, 1.01, 1.5, 3.0, 9.0, 80.0, 1e6}) {
      Extent extent;
      extent.add(low);
      extent.add(low * factor);
      for (const Scale& scale : {log_scale(extent, 0, 400), linear_scale(extent, 0, 400)}) {
        const std::vector<double> values = ticks(scale, 8);
        EXPECT_GE(values.size(), 1U) << low << " " << factor;
        EXPECT_LE(values.size(), 17U);
        for (const double value : values) {
          EXPECT_GE(scale(value), -0.5);
          EXPECT_LE(scale(value), 400.5);
        }
      }
    }
  }
}

TEST(Svg, DrawsNothingAtACoordinateThatIsNotFinite) {
  Svg svg("id", 10, 10, "t", "d");
  const std::string empty = svg.str();
  svg.line({0, 0}, {NAN, 1}, "x");
  svg.marker(Marker::kCircle, {INFINITY, 1}, 2, "x");
  svg.text({NAN, NAN}, "words");
  svg.rect({0, 0, NAN, 1}, "x");
  EXPECT_EQ(svg.str(), empty);
}

TEST(Labels, NeverCoverEachOther) {
  Svg svg("id", 100, 100, "t", "d");
  Labels labels({0, 0, 100, 100});
  int placed = 0;
  for (int i = 0; i < 30; ++i) placed += labels.place(svg, {50, 50}, "label", "t") ? 1 : 0;
  EXPECT_GT(placed, 1);
  EXPECT_LT(placed, 9);
}

}  // namespace
}  // namespace ridge::report
