#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/axes.h"
#include "report/diff.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/shape_names.h"
#include "report/svg.h"
#include "report/words.h"

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

TEST(OneLine, CutsByCodePointsAndCleans) {
  EXPECT_EQ(one_line("a\nb\tc", 10), "a b c");
  EXPECT_EQ(one_line("µµµµ", 4), "µµµµ");
  EXPECT_EQ(one_line("µµµµµ", 4), "µµµ…");
  EXPECT_EQ(one_line("\x1b[31m", 10), "\uFFFD[31m");
}

TEST(EscapeMarkdown, LeavesNamesReadable) {
  EXPECT_EQ(escape_markdown("PACK_B = 1"), "PACK_B = 1");
  EXPECT_EQ(escape_markdown("_x_ a|b\nc"), "\\_x\\_ a\\|b c");
}

TEST(Numbers, HaveThreeDigitsAndUnits) {
  EXPECT_EQ(rate_text(41.23e9, "FLOP/s"), "41.2 GFLOP/s");
  EXPECT_EQ(latency_text(359.4e-6), "359 µs");
  EXPECT_EQ(ratio_text(8.9123), "8.91×");
  EXPECT_EQ(ratio_text(1.0121), "1.012×");
  EXPECT_EQ(speed_unit(693e12, "FLOP/s").text(45e12), "45.0 TFLOP/s");
  EXPECT_EQ(speed_unit(99e9, "B/s").text(1.93e9), "1.93 GB/s");
  EXPECT_EQ(gain_text(-0.0405), "−4.05 %");
  EXPECT_EQ(gain_text(3.5), "+350 %");
  EXPECT_EQ(plain_percent(0.05), "5 %");
  EXPECT_EQ(plain(2400), "2400");
  EXPECT_EQ(plain(100), "100");
  EXPECT_EQ(rate_text(std::nan(""), "FLOP/s"), "unknown");
}

TEST(ShapeNames, KeepWhatVariesAndSayTheRestOnce) {
  const ShapeNames names({"m=1 n=64 k=8 dtype=f32 bias=0", "m=16 n=64 k=8 dtype=f32 bias=0"});
  EXPECT_EQ(names.shared(), "n=64 k=8 dtype=f32 bias=0");
  EXPECT_EQ(names.shorten("closest is m=16 n=64 k=8 dtype=f32 bias=0: 1.2"), "closest is m=16: 1.2");
  EXPECT_EQ(names.shorten("gemm m=1 n=64 k=8 dtype=f32 bias=0"), "gemm m=1");
  // Not a label, only the beginning or the end of a longer one.
  EXPECT_EQ(names.shorten("m=1 n=64 k=8 dtype=f32 bias=01"), "m=1 n=64 k=8 dtype=f32 bias=01");
  EXPECT_EQ(names.shorten("am=1 n=64 k=8 dtype=f32 bias=0"), "am=1 n=64 k=8 dtype=f32 bias=0");
}

TEST(ShapeNames, OfOneShapeAreItsLeadingNumbers) {
  const ShapeNames names({"m=5 n=6 k=7 dtype=f32 batch=1"});
  EXPECT_EQ(names.shorten("m=5 n=6 k=7 dtype=f32 batch=1"), "m=5 n=6 k=7");
  EXPECT_EQ(names.shared(), "dtype=f32 batch=1");
}

TEST(ShapeNames, LeaveOtherLabelsAlone) {
  for (const auto& labels : std::vector<std::vector<std::string>>{
           {}, {"row 1", "row 2"}, {"m=1 n=2", "m=1 k=2"}, {"m=1", "m=2"}, {"dtype=f32"}, {"=1 b=2", "=2 b=2"}}) {
    const ShapeNames names(labels);
    EXPECT_EQ(names.shared(), "");
    for (const auto& label : labels) EXPECT_EQ(names.shorten(label), label);
  }
}

TEST(VoidCause, IsOneWordOfTheGuard) {
  EXPECT_EQ(void_cause("clock_gap = 0.006 is outside 0..0.005"), "clock");
  EXPECT_EQ(void_cause("foreign_load = 0.44 is outside 0..0.1"), "other programs");
  EXPECT_EQ(void_cause("power cap: 400 W"), "power cap");
  SessionCount count;
  count.causes = {{"clock", 2}, {"steal", 3}};
  EXPECT_EQ(count.void_words(), "3 steal, 2 clock");
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

// Boxes of the texts that an Svg drew, as its markup says.
std::vector<Box> text_boxes(const std::string& svg) {
  std::vector<Box> boxes;
  const std::regex text("<text class=\"[^\"]*\" x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" text-anchor=\"start\">([^<]*)<");
  for (std::sregex_iterator one(svg.begin(), svg.end(), text), end; one != end; ++one) {
    const double y = std::stod((*one)[2]);
    boxes.push_back({std::stod((*one)[1]), y - 0.8 * kFontSize, text_width((*one)[3].str()), kFontSize});
  }
  return boxes;
}

TEST(Labels, NeverCoverEachOther) {
  Svg svg("id", 100, 100, "t", "d");
  Labels labels({0, 0, 100, 100});
  int placed = 0;
  for (int i = 0; i < 30; ++i) placed += labels.place(svg, {50, 50}, "label", "t") ? 1 : 0;
  EXPECT_GT(placed, 1);
  EXPECT_LT(placed, 9);
}

TEST(Labels, OfPointsCloseTogetherFindRoomFurtherAway) {
  Svg svg("id", 400, 300, "t", "d");
  const Box area{0, 0, 400, 300};
  Labels labels(area);
  std::vector<Box> marks;
  for (int i = 0; i < 8; ++i) {
    marks.push_back({195.0 + 6 * i, 145.0 + 3 * (i % 3), 10, 10});
    labels.keep_clear(marks.back());
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(
        labels.place(svg, {200.0 + 6 * i, 150.0 + 3 * (i % 3)}, std::string(1, static_cast<char>('A' + i)), "t", 7, 84))
        << i;
  }
  const std::vector<Box> boxes = text_boxes(svg.str());
  ASSERT_EQ(boxes.size(), 8U);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_TRUE(boxes[i].inside({-0.1, -0.1, 400.2, 300.2}));
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(boxes[i].overlaps(boxes[j])) << i << " " << j;
    for (const Box& mark : marks) EXPECT_FALSE(boxes[i].overlaps(mark)) << i;
  }
  EXPECT_NE(svg.str().find("class=\"leader\""), std::string::npos);
}

TEST(Labels, StayOffLines) {
  Svg svg("id", 200, 100, "t", "d");
  Labels labels({0, 0, 200, 100});
  const Point from{0, 90}, to{200, 10};
  labels.keep_clear(from, to);
  EXPECT_TRUE(labels.place_along(svg, from, to, "slope", "t"));
  const std::vector<Box> boxes = text_boxes(svg.str());
  ASSERT_EQ(boxes.size(), 1U);
  for (double share = 0; share <= 1; share += 0.01) {
    const Box point{from.x + share * (to.x - from.x), from.y + share * (to.y - from.y), 0.1, 0.1};
    EXPECT_FALSE(boxes[0].overlaps(point)) << share;
  }
}

}  // namespace
}  // namespace ridge::report
